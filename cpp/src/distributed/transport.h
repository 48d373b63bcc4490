// What moves bytes between ranks: sockets or MPI. All that is computed stands above it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace traingraph::distributed {

// What all ranks do together, by its first bytes in each message.
enum class Call : std::uint8_t { all_gather, all_reduce, failed };

// Before the bytes of each message. Ranks that go on together agree on the first 16 bytes, and
// which rows each one has is added up where rows count.
struct Header {
  std::uint64_t call = 0;   // the kind above its number
  std::uint64_t bytes = 0;  // of the whole call; of Call::failed: the rank that has ended
  std::int64_t rows = 0;
  std::int64_t all_rows = 0;
};
inline constexpr std::size_t kAgreed = 16;

// A message, its header included.
struct Part {
  std::byte* bytes = nullptr;
  std::size_t length = 0;
};

// "all_gather 3 of 16 bytes".
std::string to_string(const Header& header);
// Raises DistributedError where what a rank has sent belongs to another call than `own`.
void check_agrees(int rank, const std::byte* sent, const Header& own);

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string engine() const = 0;
  // Sends parts to the ranks of their places and receives others from them, all at once; an empty
  // part is none. Returns when all of it is done, and allocates nothing. Raises DistributedError
  // for a rank that has ended, that is silent for longer than the limit, or that is elsewhere.
  virtual void exchange(const Header& own, std::span<const Part> sends,
                        std::span<const Part> receives) = 0;
  // What has ended another rank, or nothing, without waiting; between exchanges. An engine whose
  // launcher ends all ranks has nothing to tell.
  virtual std::string failure() { return {}; }
  // Sends the others a header of Call::failed, as far as that goes without waiting.
  virtual void tell_failed(int rank) noexcept = 0;
};

}  // namespace traingraph::distributed
