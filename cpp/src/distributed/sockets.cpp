// The loop that sends and receives between all pairs of ranks at once.
#include "distributed/sockets.h"

#include <poll.h>

#include <algorithm>

#include <traingraph/errors.h>

#include "distributed/process_memory.h"

namespace traingraph::distributed {
namespace {

constexpr int kWaited = 20;  // milliseconds, of one wait
// Shorter messages are sent sooner than a notice is answered.
constexpr std::size_t kLong = 65536;

template <class T>
iovec piece_of(T& value) {
  return {&value, sizeof value};
}

std::size_t length_of(std::span<const iovec> pieces) {
  std::size_t sum = 0;
  for (const iovec& piece : pieces) sum += piece.iov_len;
  return sum;
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

bool Sockets::Line::reads(const Part& part) const { return process != 0 && part.length >= kLong; }

bool Sockets::Line::has_message() const { return length_of({receives.data(), 2}) == 0; }

std::span<iovec> Sockets::Line::sent_now() { return std::span(sends).first(has_message() ? 3 : 2); }

bool Sockets::Line::has_sent() { return length_of(sent_now()) == 0; }

bool Sockets::Line::is_behind() { return !has_sent() || !has_received(); }

bool Sockets::Line::has_received() const { return length_of(receives) == 0; }

bool Sockets::Line::is_between() const {
  return socket.is_open() && (has_received() || receives[0].iov_len == sizeof(Header));
}

bool Sockets::Line::is_amid() const {
  const std::size_t left = length_of({sends.data(), 2}), of_answer = sends[2].iov_len;
  return (left != 0 && left != message) || (of_answer != 0 && of_answer != sizeof own);
}

void Sockets::begin(const Header& own, std::size_t rank, Messages& messages) {
  Line& line = lines_[rank];
  if (!line.socket.is_open()) return;
  const Part &send = messages.sends[rank], &receive = messages.receives[rank];
  line.told_place = reinterpret_cast<std::uintptr_t>(send.bytes);
  line.own = own;
  line.sends = {piece_of(line.own),
                line.reads(send) ? piece_of(line.told_place) : iovec{send.bytes, send.length},
                line.reads(receive) ? piece_of(line.own) : iovec{}};
  line.receives = {
      piece_of(messages.headers[rank]),
      line.reads(receive) ? piece_of(line.heard_place) : iovec{receive.bytes, receive.length},
      line.reads(send) ? piece_of(line.heard_answer) : iovec{}};
  line.message = length_of({line.sends.data(), 2});
}

bool Sockets::receive_from(std::size_t rank, const Header& own, Messages& messages) {
  Line& line = lines_[rank];
  const auto received = [&](std::size_t k) { return sizeof(Header) - line.receives[k].iov_len; };
  const std::size_t before = received(0);
  const bool had_message = line.has_message();
  const std::ptrdiff_t count = receive_some(line.socket, line.receives);
  if (count == 0) return false;
  if (count < 0) fail_of_ended(rank, own);
  // As soon as they are there: of another call there may be fewer bytes.
  if (before < kAgreed && received(0) >= kAgreed) check(rank, messages.headers[rank], own);
  const Part& part = messages.receives[rank];
  if (!had_message && line.has_message() && line.reads(part) &&
      !read_process(line.process, line.heard_place, part.bytes, part.length)) {
    fail_of_ended(rank, own);
  }
  if (line.has_received() && line.reads(messages.sends[rank])) {
    check(rank, line.heard_answer, own);
  }
  return true;
}

// Whoever hears of a failure tells the others the same, before it ends itself.
void Sockets::check(std::size_t rank, const Header& sent, const Header& own) {
  if (is_of_failure(sent)) tell_failed(static_cast<int>(sent.bytes));
  check_agrees(rank, sent, own);
}

void Sockets::exchange(const Header& own, Messages& messages) {
  for (std::size_t r = 0; r < lines_.size(); ++r) begin(own, r, messages);
  Clock::time_point last = Clock::now();
  while (true) {
    bool moved = false;
    // Before anything is received: a rank that is elsewhere ends this, and all others hear of it by
    // the headers. Of a connection that is closed what was sent before is still read.
    for (Line& line : lines_) {
      if (!line.has_sent()) moved = send_some(line.socket, line.sent_now()) > 0 || moved;
    }
    for (std::size_t r = 0; r < lines_.size(); ++r) {
      Line& line = lines_[r];
      if (!line.has_received()) moved = receive_from(r, own, messages) || moved;
    }
    if (std::ranges::none_of(lines_, &Line::is_behind)) return;
    if (moved) {
      last = Clock::now();
      continue;
    }
    wait();
    const Clock::duration waited = Clock::now() - last;
    if (waited > limit_) check_silent(behind(), lines_.size(), waited, limit_);
  }
}

std::vector<std::size_t> Sockets::behind() {
  std::vector<std::size_t> ranks;
  for (std::size_t r = 0; r < lines_.size(); ++r) {
    if (lines_[r].is_behind()) ranks.push_back(r);
  }
  return ranks;
}

std::optional<Header> Sockets::told_failure(std::size_t& by) {
  for (by = 0; by < lines_.size(); ++by) {
    Header header;
    if (lines_[by].is_between() &&
        peek_some(lines_[by].socket, std::as_writable_bytes(std::span(&header, 1))) ==
            sizeof header &&
        is_of_failure(header)) {
      return header;
    }
  }
  return std::nullopt;
}

std::string Sockets::failure() {
  std::size_t by = 0;
  if (const auto told = told_failure(by)) {
    return text_of_failure(told->bytes, "has ended or failed");
  }
  for (std::size_t r = 0; r < lines_.size(); ++r) {
    std::byte next{};
    if (lines_[r].socket.is_open() && peek_some(lines_[r].socket, {&next, 1}) < 0) {
      return text_of_failure(r, "has ended");
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
  if (poll(waited_.data(), waited_.size(), kWaited) <= 0) check_interrupted();
}

// It may have ended because of another one, of which a third one tells.
void Sockets::fail_of_ended(std::size_t rank, const Header& own) {
  std::size_t by = 0;
  if (const auto told = told_failure(by)) check(by, *told, own);
  fail_of(rank, "has ended");
}

void Sockets::fail_of(std::size_t rank, const std::string& how) {
  tell_failed(static_cast<int>(rank));
  throw DistributedError(text_of_failure(rank, how));
}

void Sockets::send_failed(int rank) noexcept {
  const auto failed = static_cast<std::size_t>(rank);
  Header header{static_cast<std::uint64_t>(Call::failed) << 56, failed};
  for (std::size_t r = 0; r < lines_.size(); ++r) {
    const Line& line = lines_[r];
    if (r == failed || !line.socket.is_open() || line.is_amid()) continue;
    iovec rest = piece_of(header);
    send_some(line.socket, {&rest, 1});
  }
}

}  // namespace traingraph::distributed
