// The loop that sends and receives between all pairs of ranks at once.
#include "distributed/sockets.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include <traingraph/errors.h>

#include "runtime/threads/interruption.h"

namespace traingraph::distributed {
namespace {

constexpr int kWaited = 20;  // milliseconds, of one wait

std::string text_of_failure(std::size_t rank, const std::string& how) {
  return "[distributed] expected all ranks to go on but rank " + std::to_string(rank) + " " + how;
}

}  // namespace

Sockets::Sockets(std::vector<Socket> sockets, std::chrono::seconds limit)
    : sockets_(std::move(sockets)),
      limit_(limit),
      sent_(sockets_.size()),
      received_(sockets_.size()),
      is_amid_(sockets_.size()),
      waited_(sockets_.size()) {}

Sockets::~Sockets() = default;

bool Sockets::send_to(std::size_t rank, const Part& part) {
  const std::ptrdiff_t count =
      send_some(sockets_[rank], part.bytes + sent_[rank], part.length - sent_[rank]);
  // Of a connection that is closed what was sent before is still read.
  if (count <= 0) return false;
  sent_[rank] += static_cast<std::size_t>(count);
  return true;
}

bool Sockets::receive_from(std::size_t rank, const Part& part, const Header& own) {
  const std::size_t before = received_[rank];
  const std::ptrdiff_t count =
      receive_some(sockets_[rank], part.bytes + before, part.length - before);
  if (count == 0) return false;
  if (count < 0) fail_of(rank, "has ended");
  received_[rank] += static_cast<std::size_t>(count);
  // As soon as they are there: of another call there may be fewer bytes.
  if (before < kAgreed && received_[rank] >= kAgreed) {
    check_agrees(static_cast<int>(rank), part.bytes, own);
  }
  return true;
}

void Sockets::exchange(const Header& own, std::span<const Part> sends,
                       std::span<const Part> receives) {
  std::ranges::fill(sent_, 0);
  std::ranges::fill(received_, 0);
  Clock::time_point last = Clock::now();
  while (true) {
    bool moved = false;
    std::size_t behind = sockets_.size();  // a rank that is not done
    for (std::size_t r = 0; r < sockets_.size(); ++r) {
      if (sent_[r] < sends[r].length) moved = send_to(r, sends[r]) || moved;
      is_amid_[r] = sent_[r] != 0 && sent_[r] < sends[r].length;
      if (received_[r] < receives[r].length) moved = receive_from(r, receives[r], own) || moved;
      if (sent_[r] < sends[r].length || received_[r] < receives[r].length) behind = r;
    }
    if (behind == sockets_.size()) return;
    if (moved) {
      last = Clock::now();
      continue;
    }
    wait(sends, receives);
    if (Clock::now() - last > limit_) {
      fail_of(behind, "has been silent for " + std::to_string(limit_.count()) +
                          " s (TRAINGRAPH_DISTRIBUTED_LIMIT)");
    }
  }
}

std::string Sockets::failure() {
  for (std::size_t r = 0; r < sockets_.size(); ++r) {
    if (!sockets_[r].is_open()) continue;
    Header header;
    const std::ptrdiff_t count =
        peek_some(sockets_[r], reinterpret_cast<std::byte*>(&header), sizeof header);
    if (count < 0) return text_of_failure(r, "has ended");
    if (count == sizeof header && header.call >> 56 == static_cast<std::uint64_t>(Call::failed)) {
      return text_of_failure(header.bytes, "has ended or failed");
    }
  }
  return {};
}

void Sockets::wait(std::span<const Part> sends, std::span<const Part> receives) {
  for (std::size_t r = 0; r < sockets_.size(); ++r) {
    int events = 0;
    if (sent_[r] < sends[r].length) events |= POLLOUT;
    if (received_[r] < receives[r].length) events |= POLLIN;
    waited_[r] = {events == 0 ? -1 : sockets_[r].descriptor(), static_cast<short>(events), 0};
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
  for (std::size_t r = 0; r < sockets_.size(); ++r) {
    if (r == failed || !sockets_[r].is_open() || is_amid_[r]) continue;
    send_some(sockets_[r], reinterpret_cast<const std::byte*>(&header), sizeof header);
  }
}

}  // namespace traingraph::distributed
