// TCP sockets that never block for longer than a limit.
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace traingraph::distributed {

using Clock = std::chrono::steady_clock;

// A file descriptor, closed with it.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : descriptor_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;
  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  void close();

 private:
  int release();
  int descriptor_ = -1;
};

struct Address {
  std::string host;
  std::uint16_t port = 0;
};

// Raise DistributedError with the system's text. A port of 0 is any free one.
Socket listen_at(const Address& address);
std::uint16_t port_of(const Socket& listening);
// Tries until somebody listens there, or the deadline has passed.
Socket connect_to(const Address& address, Clock::time_point deadline);
// Invalid where nobody has come before the deadline. `host` receives where it comes from.
Socket accept_from(const Socket& listening, Clock::time_point deadline, std::string& host);

// Take what went off the pieces. Return how much it was, 0 for none now, or -1 where the other end
// is closed or broken.
std::ptrdiff_t send_some(const Socket& socket, std::span<iovec> pieces);
std::ptrdiff_t receive_some(const Socket& socket, std::span<iovec> pieces);
// As receive_some, and the bytes are received again later.
std::ptrdiff_t peek_some(const Socket& socket, std::span<std::byte> bytes);
// All of it before the deadline, or false.
bool send_all(const Socket& socket, std::span<const std::byte> bytes, Clock::time_point deadline);
bool receive_all(const Socket& socket, std::span<std::byte> bytes, Clock::time_point deadline);

}  // namespace traingraph::distributed
