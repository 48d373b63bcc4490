// Numbers that programs read and that change from step to step: rates, counters, scales.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/backend.h"

namespace traingraph {

// Eight bytes each: float32, float64 or int64. Programs on the host read them where they are set;
// a device has a copy, which is written where one of those that a program reads has changed.
// Touched by the holder of the owner's stream, but for `forget_sent`.
class StepScalars {
 public:
  StepScalars(const Backend& backend, std::size_t count);

  // Where programs read a number. Allocates the device's block at the first call.
  std::byte* address(std::size_t index);
  void set(std::size_t index, double number, bool wide);
  void set_count(std::size_t index, std::int64_t count);
  // Brings a device up to date for a program that reads these: with its next run, or before it.
  void send(std::span<const std::size_t> read, Executable& executable);
  // After a run that failed, which may not have brought what was sent. By any thread.
  void forget_sent() { sent_is_there_ = false; }
  // Of the device's block; 0 where there is none.
  std::size_t device_bytes() const { return block_ == nullptr ? 0 : numbers_.size(); }

 private:
  const Backend& backend_;
  std::vector<std::byte> numbers_;
  std::vector<std::byte> sent_;  // what the device has
  std::atomic<bool> sent_is_there_ = true;
  std::shared_ptr<std::byte> block_;
};

}  // namespace traingraph
