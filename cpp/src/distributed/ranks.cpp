// What ranks do together: gathering, broadcasting and adding numbers.
#include "distributed/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>

#include <traingraph/errors.h>

#include "distributed/launcher.h"
#include "runtime/threads/interruption.h"

namespace traingraph::distributed {
namespace {

// In brackets, as a fit says behind it in which step.
constexpr const char* kStartAgain =
    " (end this process and start all ranks again, from the last checkpoint)";

// Of the running system, which containers share as they share GPUs.
std::string name_of_machine() {
  std::array<char, 256> host{};
  static_cast<void>(gethostname(host.data(), host.size() - 1));
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot.empty() ? host.data() : boot;
}

}  // namespace

Ranks::Ranks(int rank, int size, std::unique_ptr<Transport> transport)
    : rank_(rank), size_(size), transport_(std::move(transport)), number_(number_peers()) {}

Ranks::~Ranks() = default;

std::chrono::seconds Ranks::limit() const { return distributed::limit(); }

std::shared_ptr<Ranks> make_ranks(int rank, int size, std::unique_ptr<Transport> transport) {
  auto made = std::make_shared<Ranks>(rank, size, std::move(transport));
  make_known(made->number(), made);
  made->meet();
  return made;
}

std::shared_ptr<Ranks> ranks_numbered(int number) {
  return std::static_pointer_cast<Ranks>(peers_numbered(number));
}

void Ranks::exchange(Call call, Header header, Messages& messages) {
  if (is_forked()) {
    throw DistributedError("[distributed] expected a call of the process that is rank " +
                           std::to_string(rank_) +
                           " but got one of a child that it has forked; a child has no ranks");
  }
  const std::lock_guard lock(mutex_);
  if (is_broken_) throw DistributedError(why_ + kStartAgain);
  header.call = static_cast<std::uint64_t>(call) << 56 | ++calls_;
  try {
    transport_->exchange(header, messages);
  } catch (const DistributedError& error) {
    why_ = error.what();
    is_broken_ = true;
    if (transport_->is_interrupted()) transport_->tell_failed(rank_);
    throw DistributedError(why_ + kStartAgain);
  } catch (...) {
    transport_->tell_failed(rank_);
    why_ = kInterrupted;
    is_broken_ = true;
    throw;
  }
}

void Ranks::abandon() noexcept {
  if (is_forked()) return;
  const std::lock_guard lock(mutex_);
  if (is_broken_ || transport_ == nullptr) return;
  is_broken_ = true;
  why_ = "[distributed] expected all ranks to go on but this one has failed before";
  transport_->tell_failed(rank_);
}

void Ranks::meet() {
  const std::vector<std::string> machines = all_texts(name_of_machine());
  const auto own = machines.begin() + rank_;
  local_rank_ = static_cast<int>(std::count(machines.begin(), own, *own));
}

std::shared_ptr<void> Ranks::queue_step() {
  ++queued_;
  return {this, [](Ranks* ranks) { --ranks->queued_; }};
}

void Ranks::wait_for_steps() const {
  while (queued_ != 0) {
    check_interruption();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

std::string Ranks::failure() noexcept {
  if (is_forked()) return {};
  try {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || transport_ == nullptr) return {};  // who communicates finds it
    if (!is_broken_) {
      why_ = transport_->failure();
      is_broken_ = !why_.empty();
    }
    return is_broken_ ? why_ : std::string();
  } catch (...) {
    return {};
  }
}

std::vector<std::byte> Ranks::all_gather(std::span<const std::byte> mine, Call call) {
  const auto count = static_cast<std::size_t>(size_), own = static_cast<std::size_t>(rank_);
  std::vector<std::byte> all(count * mine.size());
  Messages messages(count);
  std::ranges::copy(mine, all.data() + own * mine.size());
  for (std::size_t r = 0; r < count; ++r) {
    if (r == own) continue;
    messages.sends[r] = {all.data() + own * mine.size(), mine.size()};
    messages.receives[r] = {all.data() + r * mine.size(), mine.size()};
  }
  if (size_ > 1) exchange(call, {.bytes = mine.size()}, messages);
  return all;
}

std::vector<std::string> Ranks::all_texts(const std::string& mine, Call call) {
  const std::uint64_t length = mine.size();
  const std::vector<std::byte> told = all_gather(std::as_bytes(std::span(&length, 1)), call);
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(size_));
  std::memcpy(lengths.data(), told.data(), told.size());
  std::string padded = mine;
  padded.resize(*std::ranges::max_element(lengths));
  const std::vector<std::byte> all = all_gather(std::as_bytes(std::span(padded)), call);
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    const auto* const from = reinterpret_cast<const char*>(all.data()) + r * padded.size();
    texts.emplace_back(from, lengths[r]);
  }
  return texts;
}

void Ranks::broadcast(std::span<std::byte> bytes) {
  Messages messages(static_cast<std::size_t>(size_));
  if (rank_ != 0) messages.receives[0] = {bytes.data(), bytes.size()};
  for (std::size_t r = 1; rank_ == 0 && r < messages.sends.size(); ++r) {
    messages.sends[r] = {bytes.data(), bytes.size()};
  }
  if (size_ > 1) exchange(Call::all_gather, {.bytes = bytes.size()}, messages);
}

void Ranks::add(std::span<double> numbers) {
  if (size_ == 1) return;
  const std::vector<std::byte> told = all_gather(std::as_bytes(numbers));
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    for (int r = 0; r < size_; ++r) {
      double one = 0;
      std::memcpy(&one,
                  told.data() + (static_cast<std::size_t>(r) * numbers.size() + k) * sizeof one,
                  sizeof one);
      numbers[k] = r == 0 ? one : numbers[k] + one;
    }
  }
}

Shard shard_of(std::int64_t all_rows, int rank, int size) {
  const std::int64_t each = all_rows / size, rest = all_rows % size;
  return {rank * each + std::min<std::int64_t>(rank, rest), each + (rank < rest ? 1 : 0)};
}

}  // namespace traingraph::distributed
