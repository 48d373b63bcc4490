// EncodedOn: to which command buffers something was encoded, and what became of them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace traingraph::mps {

// Of a command buffer, or of one part of it. Dropped: it went, or failed to compile, uncommitted.
enum class BufferFate : int { kOpen, kCommitted, kDropped };

// The number of a command buffer, and its fate, which outlives it.
struct BufferRecord {
  std::uint64_t number = 0;
  std::shared_ptr<const std::atomic<BufferFate>> fate;
};

// What was encoded to a buffer counts for encodings to the same one, and for others once it is
// committed.
class EncodedOn {
 public:
  EncodedOn() = default;
  explicit EncodedOn(BufferRecord buffer) : buffers_{std::move(buffer)} {}
  void add(const BufferRecord& buffer) {
    if (!buffers_.empty() && buffers_.back().fate == buffer.fate) return;
    buffers_.push_back(buffer);
  }
  void forget() { buffers_.clear(); }
  void forget(std::uint64_t number) {
    std::erase_if(buffers_, [number](const BufferRecord& own) { return own.number == number; });
  }
  bool has(std::uint64_t number) const {
    return std::ranges::any_of(buffers_,
                               [number](const BufferRecord& own) { return own.number == number; });
  }
  bool has(BufferFate fate) const {
    return std::ranges::any_of(buffers_,
                               [fate](const BufferRecord& own) { return *own.fate == fate; });
  }
  bool has_committed_apart_from(std::uint64_t number) const {
    return std::ranges::any_of(buffers_, [number](const BufferRecord& own) {
      return own.number != number && *own.fate == BufferFate::kCommitted;
    });
  }
  const std::vector<BufferRecord>& buffers() const { return buffers_; }

 private:
  std::vector<BufferRecord> buffers_;
};

}  // namespace traingraph::mps
