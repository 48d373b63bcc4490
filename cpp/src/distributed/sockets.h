// The transport without MPI: one TCP connection for each pair of ranks. Long messages between
// processes of one machine are read from the sender's memory, and the connection says where.
#pragma once

#include <array>
#include <chrono>
#include <memory>
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
  void exchange(const Header& own, std::span<const Part> sends,
                std::span<const Part> receives) override;
  std::string failure() override;
  // Not those who are in the middle of a message of this one.
  void tell_failed(int rank) noexcept override;

 private:
  // In place of a long message: where it is.
  struct Notice {
    std::uint64_t call = 0, bytes = 0;  // as in the header
    std::uint64_t place = 0;
  };
  // With one rank: the message, or its notice, and then that the other's message was read.
  struct Line {
    Socket socket;
    std::int64_t process = 0;  // of one whose memory is read, or 0
    Notice told, heard;
    std::array<std::byte, kAgreed> is_read{}, was_read{};  // answers
    std::array<Part, 2> sends, receives;
    std::size_t sending = 0, receiving = 0;  // the pieces
    std::size_t sent = 0, received = 0;      // bytes of them

    void begin(const Header& own, const Part& send, const Part& receive);
    // Nothing may be sent now: all of it went, or what is to be read has not come.
    bool has_sent() const;
    bool has_received() const;
    bool reads(const Part& message) const;
  };

  void find_readable();
  // Whether anything went. Raise for a rank that has ended, or is elsewhere.
  bool send_to(Line& line);
  bool receive_from(std::size_t rank, const Part& message, const Header& own);
  void wait();
  [[noreturn]] void fail_of(std::size_t rank, const std::string& how);

  std::vector<Line> lines_;
  const std::chrono::seconds limit_;
  std::vector<pollfd> waited_;
};

}  // namespace traingraph::distributed
