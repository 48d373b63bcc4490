// The loop that sends and receives between all pairs of ranks at once.
#include "distributed/sockets.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include <traingraph/errors.h>

#include "distributed/process_memory.h"
#include "runtime/threads/interruption.h"

namespace traingraph::distributed {
namespace {

constexpr int kWaited = 20;  // milliseconds, of one wait
// Shorter messages are sent sooner than a notice is answered.
constexpr std::size_t kLong = 65536;

template <class T>
Part part_of(T& value) {
  return {reinterpret_cast<std::byte*>(&value), sizeof value};
}

std::string text_of_failure(std::size_t rank, const std::string& how) {
  return "[distributed] expected all ranks to go on but rank " + std::to_string(rank) + " " + how;
}

}  // namespace

Sockets::Sockets(std::vector<Socket> sockets, std::chrono::seconds limit)
    : lines_(sockets.size()), limit_(limit), waited_(sockets.size()) {
  for (std::size_t r = 0; r < lines_.size(); ++r) lines_[r].socket = std::move(sockets[r]);
  find_readable();
}

Sockets::~Sockets() = default;

// Both ends of a line read, or neither.
void Sockets::find_readable() {
  const Clock::time_point deadline = Clock::now() + limit_;
  const auto send = [&](Line& line, auto value) {
    if (line.socket.is_open()) {
      send_all(line.socket, std::as_bytes(std::span(&value, 1)), deadline);
    }
  };
  const auto receive = [&](std::size_t rank, auto value) {
    const Socket& socket = lines_[rank].socket;
    if (socket.is_open() &&
        !receive_all(socket, std::as_writable_bytes(std::span(&value, 1)), deadline)) {
      fail_of(rank, "has ended");
    }
    return value;
  };
  for (Line& line : lines_) send(line, readable_process());
  for (std::size_t r = 0; r < lines_.size(); ++r) {
    const ReadableProcess other = receive(r, ReadableProcess());
    if (can_read(other)) lines_[r].process = other.process;
  }
  for (Line& line : lines_) send(line, line.process != 0);
  for (std::size_t r = 0; r < lines_.size(); ++r) {
    if (!receive(r, false)) lines_[r].process = 0;
  }
}

bool Sockets::Line::reads(const Part& message) const {
  return process != 0 && message.length >= kLong;
}

void Sockets::Line::begin(const Header& own, const Part& send, const Part& receive) {
  told = {own.call, own.bytes, reinterpret_cast<std::uintptr_t>(send.bytes)};
  std::memcpy(is_read.data(), &own, kAgreed);
  sends = {reads(send) ? part_of(told) : send, reads(receive) ? part_of(is_read) : Part()};
  receives = {reads(receive) ? part_of(heard) : receive, reads(send) ? part_of(was_read) : Part()};
  sending = receiving = sent = received = 0;
}

bool Sockets::Line::has_sent() const {
  return sending == sends.size() || sends[sending].length == 0 || sending > receiving;
}

bool Sockets::Line::has_received() const {
  return receiving == receives.size() || receives[receiving].length == 0;
}

bool Sockets::send_to(Line& line) {
  const Part& piece = line.sends[line.sending];
  const std::ptrdiff_t count =
      send_some(line.socket, piece.bytes + line.sent, piece.length - line.sent);
  // Of a connection that is closed what was sent before is still read.
  if (count <= 0) return false;
  line.sent += static_cast<std::size_t>(count);
  if (line.sent == piece.length) {
    ++line.sending;
    line.sent = 0;
  }
  return true;
}

bool Sockets::receive_from(std::size_t rank, const Part& message, const Header& own) {
  Line& line = lines_[rank];
  const Part& piece = line.receives[line.receiving];
  const std::size_t before = line.received;
  const std::ptrdiff_t count =
      receive_some(line.socket, piece.bytes + before, piece.length - before);
  if (count == 0) return false;
  if (count < 0) fail_of(rank, "has ended");
  line.received += static_cast<std::size_t>(count);
  // As soon as they are there: of another call there may be fewer bytes.
  if (before < kAgreed && line.received >= kAgreed) {
    check_agrees(static_cast<int>(rank), piece.bytes, own);
  }
  if (line.received < piece.length) return true;
  if (line.receiving == 0 && line.reads(message) &&
      !read_process(line.process, line.heard.place, message.bytes, message.length)) {
    fail_of(rank, "has ended");
  }
  ++line.receiving;
  line.received = 0;
  return true;
}

void Sockets::exchange(const Header& own, std::span<const Part> sends,
                       std::span<const Part> receives) {
  for (std::size_t r = 0; r < lines_.size(); ++r) lines_[r].begin(own, sends[r], receives[r]);
  Clock::time_point last = Clock::now();
  while (true) {
    bool moved = false;
    std::size_t behind = lines_.size();  // a rank that is not done
    for (std::size_t r = 0; r < lines_.size(); ++r) {
      Line& line = lines_[r];
      if (!line.has_sent()) moved = send_to(line) || moved;
      if (!line.has_received()) moved = receive_from(r, receives[r], own) || moved;
      if (!line.has_sent() || !line.has_received()) behind = r;
    }
    if (behind == lines_.size()) return;
    if (moved) {
      last = Clock::now();
      continue;
    }
    wait();
    if (Clock::now() - last > limit_) {
      fail_of(behind, "has been silent for " + std::to_string(limit_.count()) +
                          " s (TRAINGRAPH_DISTRIBUTED_LIMIT)");
    }
  }
}

std::string Sockets::failure() {
  for (std::size_t r = 0; r < lines_.size(); ++r) {
    if (!lines_[r].socket.is_open()) continue;
    Header header;
    const std::ptrdiff_t count =
        peek_some(lines_[r].socket, reinterpret_cast<std::byte*>(&header), sizeof header);
    if (count < 0) return text_of_failure(r, "has ended");
    if (count == sizeof header && header.call >> 56 == static_cast<std::uint64_t>(Call::failed)) {
      return text_of_failure(header.bytes, "has ended or failed");
    }
  }
  return {};
}

void Sockets::wait() {
  for (std::size_t r = 0; r < lines_.size(); ++r) {
    int events = 0;
    if (!lines_[r].has_sent()) events |= POLLOUT;
    if (!lines_[r].has_received()) events |= POLLIN;
    waited_[r] = {events == 0 ? -1 : lines_[r].socket.descriptor(), static_cast<short>(events), 0};
  }
  if (poll(waited_.data(), waited_.size(), kWaited) <= 0) check_interruption();
}

void Sockets::fail_of(std::size_t rank, const std::string& how) {
  tell_failed(static_cast<int>(rank));
  throw DistributedError(text_of_failure(rank, how));
}

void Sockets::tell_failed(int rank) noexcept {
  const auto failed = static_cast<std::size_t>(rank);
  const Header header{static_cast<std::uint64_t>(Call::failed) << 56, failed};
  for (std::size_t r = 0; r < lines_.size(); ++r) {
    const Line& line = lines_[r];
    if (r == failed || !line.socket.is_open() || line.sent != 0) continue;  // amid a message
    send_some(line.socket, reinterpret_cast<const std::byte*>(&header), sizeof header);
  }
}

}  // namespace traingraph::distributed
