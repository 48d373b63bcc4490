// The transport without MPI: one TCP connection for each pair of ranks. Long messages between
// processes of one machine are read from the sender's memory, and the connection says where.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "distributed/socket.h"
#include "distributed/transport.h"

struct pollfd;

namespace traingraph::distributed {

class Sockets final : public Transport {
 public:
  // By rank; the own place is empty.
  Sockets(std::vector<Socket> sockets, std::chrono::seconds limit);
  ~Sockets() override;

  std::string engine() const override { return "sockets"; }
  void exchange(const Header& own, Messages& messages) override;
  std::string failure() override;

 protected:
  // Not those who are in the middle of a message of this one.
  void send_failed(int rank) noexcept override;

 private:
  // A header, then bytes or the place of a long message, then the answer that it was read.
  using Pieces = std::array<iovec, 3>;
  // With one rank.
  struct Line {
    Socket socket;
    std::int64_t process = 0;  // of one whose memory is read, or 0
    std::uint64_t told_place = 0, heard_place = 0;
    Header own, heard_answer;  // the own one is an answer, too
    Pieces sends, receives;
    std::size_t message = 0;  // bytes before the answer that are sent

    bool reads(const Part& part) const;
    bool has_message() const;  // received
    // What may be sent now: an answer behind the message that it answers.
    std::span<iovec> sent_now();
    bool has_sent();
    bool has_received() const;
    bool is_behind();  // not done with the call
    // Whether a header comes next, which nobody has begun to receive.
    bool is_between() const;
    // In the middle of a message or an answer.
    bool is_amid() const;
  };

  void find_readable();
  void begin(const Header& own, std::size_t rank, Messages& messages);
  // Whether anything came. Raises for a rank that has ended, or is elsewhere.
  bool receive_from(std::size_t rank, const Header& own, Messages& messages);
  void check(std::size_t rank, const Header& sent, const Header& own);
  void wait();
  std::vector<std::size_t> behind();
  // A header of Call::failed that is there, by its rank.
  std::optional<Header> told_failure(std::size_t& by);
  [[noreturn]] void fail_of(std::size_t rank, const std::string& how);
  // Of a connection that is closed.
  [[noreturn]] void fail_of_ended(std::size_t rank, const Header& own);

  std::vector<Line> lines_;
  const std::chrono::seconds limit_;
  std::vector<pollfd> waited_;
};

}  // namespace traingraph::distributed
