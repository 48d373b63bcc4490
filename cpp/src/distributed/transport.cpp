// Headers of messages, and the errors of what they tell.
#include "distributed/transport.h"

#include <cstring>
#include <utility>

#include <traingraph/errors.h>

#include "runtime/threads/interruption.h"

namespace traingraph::distributed {

std::string text_of_failure(std::size_t rank, const std::string& how) {
  return "[distributed] expected all ranks to go on but rank " + std::to_string(rank) + " " + how;
}

bool is_of_failure(const Header& header) {
  return header.call >> 56 == static_cast<std::uint64_t>(Call::failed);
}

std::string to_string(const Header& header) {
  // What a program calls, and how it is called here.
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"compile, fit, evaluate, save or state", "all_gather"},
      {"a step", "all_reduce"},
      {"the beginning of compile, fit or evaluate", "begin"},
      {"an end", "failed"}};
  const std::uint64_t kind = header.call >> 56;
  const std::uint64_t number = header.call & 0xffffffffffffff;
  const auto [call, name] =
      kind < std::size(kNames) ? kNames[kind] : std::pair("an unknown call", "unknown");
  return std::string(call) + " (" + name + " " + std::to_string(number) + " of " +
         std::to_string(header.bytes) + " bytes)";
}

void check_agrees(std::size_t rank, const Header& sent, const Header& own) {
  if (std::memcmp(&sent, &own, kAgreed) == 0) return;
  if (sent.graph != own.graph && sent.graph != 0 && own.graph != 0) {
    throw DistributedError("[distributed] expected the sums of graph " + std::to_string(own.graph) +
                           " of rank " + std::to_string(rank) + " but got those of graph " +
                           std::to_string(sent.graph) +
                           ", as they were compiled: execute graphs in the same order on all "
                           "ranks, from one thread");
  }
  if (is_of_failure(sent)) {
    throw DistributedError(text_of_failure(
        sent.bytes, "has ended or failed, as rank " + std::to_string(rank) + " says"));
  }
  throw DistributedError("[distributed] expected " + to_string(own) + " of rank " +
                         std::to_string(rank) + " but got " + to_string(sent) +
                         ": every rank has to make the same calls in the same order, and one that "
                         "has refused a step has not made it");
}

void Transport::check_silent(std::span<const std::size_t> behind, std::size_t size,
                             std::chrono::duration<double> waited, std::chrono::seconds limit) {
  if (behind.empty()) return;
  const auto share = static_cast<double>(behind.size() - 1) / static_cast<double>(size);
  if (waited <= limit * (1 + share)) return;
  tell_failed(static_cast<int>(behind.front()));
  std::string others;
  for (const std::size_t rank : behind.subspan(1)) {
    others += ", and so has rank " + std::to_string(rank);
  }
  throw DistributedError(
      text_of_failure(behind.front(), "has been silent for " + std::to_string(limit.count()) +
                                          " s (TRAINGRAPH_DISTRIBUTED_LIMIT)" + others));
}

void Transport::check_interrupted() const {
  if (is_interrupted_) throw DistributedError(kInterrupted);
  check_interruption();
}

}  // namespace traingraph::distributed
