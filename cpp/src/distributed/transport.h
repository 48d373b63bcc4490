// What moves bytes between ranks: sockets or MPI. All that is computed stands above it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace traingraph::distributed {

// What all ranks do together, by its first bytes in each message.
// `begin`: as all_gather, where a call of the program begins on all ranks or on none.
enum class Call : std::uint8_t { all_gather, all_reduce, begin, failed };

// Before the bytes of each message. Ranks that go on together agree on the first 24 bytes, and
// which rows each one has is added up where rows count.
struct Header {
  std::uint64_t call = 0;   // the kind above its number
  std::uint64_t bytes = 0;  // of the whole call; of Call::failed: the rank that has ended
  std::int64_t graph = 0;   // of Call::all_reduce: whose sums these are
  std::int64_t rows = 0;
  std::int64_t all_rows = 0;
};
inline constexpr std::size_t kAgreed = 24;

// Bytes behind a header, or none.
struct Part {
  std::byte* bytes = nullptr;
  std::size_t length = 0;
};

// What one rank sends to the others and receives from them, by their places; the own ones are
// empty.
struct Messages {
  explicit Messages(std::size_t ranks) : sends(ranks), receives(ranks), headers(ranks) {}
  std::vector<Part> sends, receives;
  std::vector<Header> headers;  // that were received
};

inline constexpr const char* kInterrupted =
    "[distributed] expected all ranks to go on but a call of theirs was interrupted";

// Of a rank that ends the training: "has ended".
std::string text_of_failure(std::size_t rank, const std::string& how);
// Whether it tells of a rank that has ended or failed.
bool is_of_failure(const Header& header);
// "a step (all_reduce 3 of 16 bytes)".
std::string to_string(const Header& header);
// Raises DistributedError where what a rank has sent belongs to another call than `own`.
void check_agrees(std::size_t rank, const Header& sent, const Header& own);

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string engine() const = 0;
  // Sends its header and a part to each other rank and receives theirs, all at once. Returns when
  // all of it is done, and allocates nothing. Raises DistributedError for a rank that has ended,
  // that is silent for longer than the limit, or that is elsewhere.
  virtual void exchange(const Header& own, Messages& messages) = 0;
  // What has ended another rank, or nothing, without waiting; between exchanges. An engine whose
  // launcher ends all ranks has nothing to tell.
  virtual std::string failure() { return {}; }
  // Sends the others a header of Call::failed, as far as that goes without waiting, once.
  void tell_failed(int rank) noexcept {
    if (!has_told_.exchange(true)) send_failed(rank);
  }
  // Lets exchanges raise, that of another thread within a moment: of a step that has failed.
  void interrupt() noexcept { is_interrupted_ = true; }
  bool is_interrupted() const { return is_interrupted_; }

 protected:
  virtual void send_failed(int rank) noexcept = 0;
  // Where an exchange between `size` ranks has waited so long for those: raises if that is too
  // long. Who waits for a rank that waits itself waits for more of them, and longer: the other one
  // knows who is silent, and tells.
  void check_silent(std::span<const std::size_t> behind, std::size_t size,
                    std::chrono::duration<double> waited, std::chrono::seconds limit);
  // Where an exchange waits.
  void check_interrupted() const;

 private:
  std::atomic<bool> is_interrupted_ = false, has_told_ = false;
};

}  // namespace traingraph::distributed
