// From live intervals to offsets: the largest buffer first, each at the lowest place where nothing
// that is live at the same time stands. A buffer that may replace another one (an elementwise
// result over an operand that ends there) prefers exactly that place.
#include <algorithm>
#include <numeric>
#include <string>

#include <traingraph/errors.h>

#include "passes/passes.h"

namespace traingraph::passes {
namespace {

bool overlaps_in_time(const PlannedBuffer& a, const PlannedBuffer& b) {
  return a.first <= b.last && b.first <= a.last;
}

bool may_replace(const std::vector<PlannedBuffer>& buffers, int later, int earlier) {
  const PlannedBuffer& b = buffers[static_cast<std::size_t>(later)];
  const PlannedBuffer& a = buffers[static_cast<std::size_t>(earlier)];
  return a.last == b.first && a.bytes == b.bytes &&
         std::find(b.may_replace.begin(), b.may_replace.end(), earlier) != b.may_replace.end();
}

bool may_share(const std::vector<PlannedBuffer>& buffers, int x, int y) {
  return may_replace(buffers, x, y) || may_replace(buffers, y, x);
}

// Of one buffer and of all: so no sum of two ends beyond 64 bits.
void expect_possible(std::size_t bytes) {
  if (bytes <= static_cast<std::size_t>(kMostBytes)) return;
  throw OutOfMemory("[memory_plan] expected at most " + std::to_string(kMostBytes) +
                    " bytes for what a program works in but got " + std::to_string(bytes));
}

}  // namespace

ArenaPlan plan_arena(std::vector<PlannedBuffer> buffers) {
  ArenaPlan plan;
  std::vector<int> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return buffers[static_cast<std::size_t>(a)].bytes > buffers[static_cast<std::size_t>(b)].bytes;
  });
  std::vector<int> placed;  // in order of offset
  for (int id : order) {
    PlannedBuffer& buffer = buffers[static_cast<std::size_t>(id)];
    if (buffer.bytes == 0) continue;
    expect_possible(buffer.bytes);
    // Whether [offset, offset + bytes) is free while the buffer is live; else where to try next.
    auto free_at = [&](std::size_t offset, std::size_t* next) {
      for (int other_id : placed) {
        const PlannedBuffer& other = buffers[static_cast<std::size_t>(other_id)];
        const std::size_t end = other.offset + aligned(other.bytes);
        if (!overlaps_in_time(buffer, other) || end <= offset ||
            other.offset >= offset + aligned(buffer.bytes)) {
          continue;
        }
        if (offset == other.offset && may_share(buffers, id, other_id)) continue;
        if (next != nullptr) *next = end;
        return false;
      }
      return true;
    };
    bool found = false;
    for (int other_id : placed) {
      const std::size_t offset = buffers[static_cast<std::size_t>(other_id)].offset;
      if (may_share(buffers, id, other_id) && free_at(offset, nullptr)) {
        buffer.offset = offset;
        found = true;
        break;
      }
    }
    std::size_t candidate = 0;
    while (!found) {
      std::size_t next = 0;
      found = free_at(candidate, &next);
      if (found) {
        buffer.offset = candidate;
      } else {
        candidate = next;
      }
    }
    plan.bytes = std::max(plan.bytes, buffer.offset + aligned(buffer.bytes));
    expect_possible(plan.bytes);
    const auto at = std::upper_bound(placed.begin(), placed.end(), id, [&](int a, int b) {
      return buffers[static_cast<std::size_t>(a)].offset <
             buffers[static_cast<std::size_t>(b)].offset;
    });
    placed.insert(at, id);
  }
  plan.buffers = std::move(buffers);
  return plan;
}

void verify_plan(const ArenaPlan& plan) {
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlannedBuffer& a = plan.buffers[i];
    if (a.bytes == 0) continue;
    if (a.offset % kAlignment != 0 || a.offset + a.bytes > plan.bytes) {
      throw InternalError("[memory_plan] buffer " + std::to_string(i) + " lies outside the arena");
    }
    for (std::size_t j = i + 1; j < plan.buffers.size(); ++j) {
      const PlannedBuffer& b = plan.buffers[j];
      if (b.bytes == 0 || a.last < b.first || b.last < a.first) continue;
      if (a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset) continue;
      auto replaces = [](const PlannedBuffer& later, const PlannedBuffer& earlier, std::size_t id) {
        return earlier.last == later.first && earlier.offset == later.offset &&
               earlier.bytes == later.bytes &&
               std::find(later.may_replace.begin(), later.may_replace.end(),
                         static_cast<int>(id)) != later.may_replace.end();
      };
      if (replaces(b, a, i) || replaces(a, b, j)) continue;
      throw InternalError("[memory_plan] buffers " + std::to_string(i) + " and " +
                          std::to_string(j) + " overlap while both live");
    }
  }
}

}  // namespace traingraph::passes
