// Work shared among threads, over the OpenMP runtime that oneDNN uses too. Parts are cut by shape
// and never by the number of threads, so results do not depend on it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace traingraph::cpu {

// Threads worth waking for work that takes one thread about this long. Asked when a kernel is
// made; a fork and join costs about a microsecond.
int threads_for(double nanoseconds);

// Nanoseconds one thread needs to move bytes that may come from memory.
inline double nanoseconds_to_move(double bytes) { return bytes / 40.0; }

// Tasks 0 … tasks - 1 for threads that run at once. Each takes those of a range of its own in
// order, then what others have not begun: one that waits for its core holds up nobody.
class SharedTasks {
 public:
  static constexpr int kMostRanges = 16;  // more threads share them

  // Before the threads begin.
  void share_out(std::int64_t tasks, int threads) {
    ranges_ = std::clamp(threads, 1, kMostRanges);
    for (std::int64_t k = 0; k < ranges_; ++k) {
      range_[k].next.store(tasks * k / ranges_, std::memory_order_relaxed);
      range_[k].end = tasks * (k + 1) / ranges_;
    }
  }
  // body(first task, count), with `most` at one time.
  template <class Body>
  void take_all(std::int64_t thread, std::int64_t most, const Body& body) {
    for (std::int64_t k = 0; k < ranges_; ++k) {
      Range& range = range_[(thread + k) % ranges_];
      for (;;) {
        const std::int64_t first = range.next.fetch_add(most, std::memory_order_relaxed);
        if (first >= range.end) break;
        body(first, std::min(most, range.end - first));
      }
    }
  }

 private:
  struct alignas(64) Range {
    std::atomic<std::int64_t> next;
    std::int64_t end;
  };
  Range range_[kMostRanges];
  std::int64_t ranges_ = 1;
};

void run_parts(std::int64_t parts, int threads, void (*body)(const void*, std::int64_t),
               const void* context);

// body(part) for each part in [0, parts). What one of them throws is thrown when all have ended.
template <class Body>
void parallel_for(std::int64_t parts, int threads, const Body& body) {
  if (threads <= 1 || parts <= 1) {
    for (std::int64_t part = 0; part < parts; ++part) body(part);
    return;
  }
  run_parts(
      parts, threads,
      [](const void* context, std::int64_t part) { (*static_cast<const Body*>(context))(part); },
      &body);
}

// Units of work cut into parts of about this many elements, a whole number of cache lines.
inline constexpr std::int64_t kElementwisePart = 16384;

struct ElementwiseParts {
  std::int64_t units;
  std::int64_t units_per_part;
  int threads;

  ElementwiseParts(std::int64_t all_units, std::int64_t unit_elements, double nanoseconds)
      : units(all_units),
        units_per_part(
            std::max<std::int64_t>(1, kElementwisePart / std::max<std::int64_t>(1, unit_elements))),
        threads(threads_for(nanoseconds)) {
    if (threads <= 1) units_per_part = std::max<std::int64_t>(units, 1);
  }

  // body(begin, end)
  template <class Body>
  void run(const Body& body) const {
    if (threads <= 1) {
      body(std::int64_t{0}, units);
      return;
    }
    const std::int64_t parts = (units + units_per_part - 1) / units_per_part;
    parallel_for(parts, threads, [&](std::int64_t part) {
      const std::int64_t begin = part * units_per_part;
      body(begin, std::min(units, begin + units_per_part));
    });
  }
};

}  // namespace traingraph::cpu
