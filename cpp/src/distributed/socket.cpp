// Connections by TCP: listening, connecting, and bytes without blocking.
#include "distributed/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <traingraph/errors.h>

#include "runtime/threads/interruption.h"

namespace traingraph::distributed {
namespace {

constexpr int kMilliseconds = 20;         // of one wait
constexpr int kLookUpMilliseconds = 200;  // between questions to a server of names

[[noreturn]] void fail(const std::string& what, const Address& address, const std::string& why) {
  throw DistributedError("[distributed] expected to " + what + " " + address.host + ":" +
                         std::to_string(address.port) + " but got: " + why);
}

std::string text_of(int code) { return std::generic_category().message(code); }

struct Freed {
  void operator()(addrinfo* found) const { freeaddrinfo(found); }
};

// Asks until the deadline: a pod or a machine that is about to start has no address yet.
std::unique_ptr<addrinfo, Freed> resolved(const Address& address, int flags,
                                          Clock::time_point deadline) {
  addrinfo asked{};
  asked.ai_socktype = SOCK_STREAM;
  asked.ai_flags = flags;
  const char* const host = address.host.empty() ? nullptr : address.host.c_str();
  const std::string port = std::to_string(address.port);
  while (true) {
    addrinfo* found = nullptr;
    const int code = getaddrinfo(host, port.c_str(), &asked, &found);
    if (code == 0) return std::unique_ptr<addrinfo, Freed>(found);
    if (Clock::now() >= deadline) {
      fail("find", address,
           std::string(gai_strerror(code)) + "; set MASTER_ADDR to the host of rank 0");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(kLookUpMilliseconds));
    check_interruption();
  }
}

Socket made(const addrinfo& at) {
  Socket socket(::socket(at.ai_family, at.ai_socktype, at.ai_protocol));
  if (socket.is_open()) fcntl(socket.descriptor(), F_SETFD, FD_CLOEXEC);
  return socket;
}

// Small messages go at once, and no call blocks.
void prepare(const Socket& socket) {
  const int on = 1;
  setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
#ifdef SO_NOSIGPIPE
  setsockopt(socket.descriptor(), SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
  fcntl(socket.descriptor(), F_SETFD, FD_CLOEXEC);
  fcntl(socket.descriptor(), F_SETFL, fcntl(socket.descriptor(), F_GETFL) | O_NONBLOCK);
}

// Whether anything has happened; asks for an interruption otherwise.
bool wait_for(const Socket& socket, short events) {
  pollfd waited{socket.descriptor(), events, 0};
  if (poll(&waited, 1, kMilliseconds) > 0) return true;
  check_interruption();
  return false;
}

// What was refused or has not been answered now may be answered later.
bool is_of_waiting(int code) { return code == EAGAIN || code == EWOULDBLOCK || code == EINTR; }

std::ptrdiff_t went(std::ptrdiff_t count) {
  if (count >= 0) return count;
  return is_of_waiting(errno) ? 0 : -1;
}

msghdr message_of(std::span<iovec> pieces) {
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = static_cast<decltype(message.msg_iovlen)>(pieces.size());
  return message;
}

std::ptrdiff_t taken_off(std::span<iovec> pieces, std::ptrdiff_t count) {
  auto rest = static_cast<std::size_t>(std::max<std::ptrdiff_t>(count, 0));
  for (iovec& piece : pieces) {
    const std::size_t taken = std::min(rest, piece.iov_len);
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + taken;
    piece.iov_len -= taken;
    rest -= taken;
  }
  return count;
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = other.release();
  }
  return *this;
}

void Socket::close() {
  if (is_open()) ::close(descriptor_);
  descriptor_ = -1;
}

int Socket::release() { return std::exchange(descriptor_, -1); }

Socket listen_at(const Address& address) {
  int code = 0;
  const auto found = resolved(address, AI_PASSIVE, Clock::now());
  std::vector<const addrinfo*> places;
  for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) places.push_back(at);
  // Who listens by IPv6 hears IPv4, too.
  std::ranges::stable_sort(places, {},
                           [](const addrinfo* at) { return at->ai_family != AF_INET6; });
  for (const addrinfo* at : places) {
    Socket socket = made(*at);
    const int on = 1, off = 0;
    if (socket.is_open()) {
      setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      if (at->ai_family == AF_INET6) {
        setsockopt(socket.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
      }
    }
    if (socket.is_open() && bind(socket.descriptor(), at->ai_addr, at->ai_addrlen) == 0 &&
        listen(socket.descriptor(), SOMAXCONN) == 0) {
      fcntl(socket.descriptor(), F_SETFL, fcntl(socket.descriptor(), F_GETFL) | O_NONBLOCK);
      return socket;
    }
    code = errno;
  }
  const char* const advice = address.port != 0 ? "; choose another MASTER_PORT" : "";
  fail("listen at", address, text_of(code) + advice);
}

std::uint16_t port_of(const Socket& listening) {
  sockaddr_storage at{};
  socklen_t length = sizeof at;
  getsockname(listening.descriptor(), reinterpret_cast<sockaddr*>(&at), &length);
  return ntohs(at.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&at)->sin6_port
                                        : reinterpret_cast<sockaddr_in*>(&at)->sin_port);
}

Socket connect_to(const Address& address, Clock::time_point deadline) {
  int code = 0;
  do {
    const auto found = resolved(address, 0, deadline);
    for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
      Socket socket = made(*at);
      if (!socket.is_open()) continue;
      prepare(socket);
      code = connect(socket.descriptor(), at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
      if (code == EINPROGRESS) {
        while (!wait_for(socket, POLLOUT) && Clock::now() < deadline) continue;
        socklen_t length = sizeof code;
        getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &code, &length);
      }
      if (code == 0) return socket;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(kMilliseconds));
    check_interruption();
  } while (Clock::now() < deadline);
  fail("reach rank 0 or another rank at", address, text_of(code));
}

Socket accept_from(const Socket& listening, Clock::time_point deadline, std::string& host) {
  while (Clock::now() < deadline) {
    if (!wait_for(listening, POLLIN)) continue;
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    auto* const at = reinterpret_cast<sockaddr*>(&from);
    Socket socket(accept(listening.descriptor(), at, &length));
    if (!socket.is_open()) continue;
    prepare(socket);
    char name[NI_MAXHOST] = {};
    getnameinfo(at, length, name, sizeof name, nullptr, 0, NI_NUMERICHOST);
    host = name;
    // One of IPv4, as ranks without IPv6 have to reach it.
    if (constexpr std::string_view kMapped = "::ffff:"; host.starts_with(kMapped)) {
      host.erase(0, kMapped.size());
    }
    return socket;
  }
  return {};
}

std::ptrdiff_t send_some(const Socket& socket, std::span<iovec> pieces) {
#ifdef MSG_NOSIGNAL
  constexpr int kFlags = MSG_NOSIGNAL;
#else
  constexpr int kFlags = 0;
#endif
  const msghdr message = message_of(pieces);
  return taken_off(pieces, went(sendmsg(socket.descriptor(), &message, kFlags)));
}

std::ptrdiff_t receive_some(const Socket& socket, std::span<iovec> pieces) {
  msghdr message = message_of(pieces);
  const std::ptrdiff_t count = recvmsg(socket.descriptor(), &message, 0);
  return taken_off(pieces, count == 0 ? -1 : went(count));
}

std::ptrdiff_t peek_some(const Socket& socket, std::span<std::byte> bytes) {
  const std::ptrdiff_t count = recv(socket.descriptor(), bytes.data(), bytes.size(), MSG_PEEK);
  return count == 0 ? -1 : went(count);
}

bool send_all(const Socket& socket, std::span<const std::byte> bytes, Clock::time_point deadline) {
  iovec rest{const_cast<std::byte*>(bytes.data()), bytes.size()};
  while (rest.iov_len != 0) {
    const std::ptrdiff_t count = send_some(socket, {&rest, 1});
    if (count < 0 || Clock::now() > deadline) return false;
    if (count == 0) wait_for(socket, POLLOUT);
  }
  return true;
}

bool receive_all(const Socket& socket, std::span<std::byte> bytes, Clock::time_point deadline) {
  iovec rest{bytes.data(), bytes.size()};
  while (rest.iov_len != 0) {
    const std::ptrdiff_t count = receive_some(socket, {&rest, 1});
    if (count < 0 || Clock::now() > deadline) return false;
    if (count == 0) wait_for(socket, POLLIN);
  }
  return true;
}

}  // namespace traingraph::distributed
