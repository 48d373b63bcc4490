#include "engine/step_scalars.h"

#include <algorithm>
#include <cstring>

#include "runtime/device_memory.h"

namespace traingraph {
namespace {

constexpr std::size_t kNumberBytes = 8;

}  // namespace

StepScalars::StepScalars(const Backend& backend, std::size_t count)
    : backend_(backend), numbers_(count * kNumberBytes), sent_(count * kNumberBytes) {}

std::byte* StepScalars::address(std::size_t index) {
  std::byte* first = numbers_.data();
  if (!uses_host_memory(backend_)) {
    if (block_ == nullptr) block_ = backend_.allocate(numbers_.size());
    first = block_.get();
  }
  return first + index * kNumberBytes;
}

void StepScalars::set(std::size_t index, double number, bool wide) {
  std::byte* const at = numbers_.data() + index * kNumberBytes;
  const auto narrow = static_cast<float>(number);
  std::memcpy(at, wide ? static_cast<const void*>(&number) : &narrow,
              wide ? sizeof number : sizeof narrow);
}

void StepScalars::set_count(std::size_t index, std::int64_t count) {
  std::memcpy(numbers_.data() + index * kNumberBytes, &count, sizeof count);
}

void StepScalars::send(std::span<const std::size_t> read, Executable& executable) {
  if (block_ == nullptr) return;
  const bool same = std::all_of(read.begin(), read.end(), [&](std::size_t index) {
    const std::size_t at = index * kNumberBytes;
    return std::memcmp(numbers_.data() + at, sent_.data() + at, kNumberBytes) == 0;
  });
  if (sent_is_there_.exchange(true) && same) return;
  if (!executable.carry_in(block_.get(), numbers_.data(), numbers_.size())) {
    write_memory(backend_, block_.get(), numbers_.data(), numbers_.size());
  }
  sent_ = numbers_;
}

}  // namespace traingraph
