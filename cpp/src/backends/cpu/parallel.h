#pragma once

#include <cstdint>

// Work shared among threads, over the OpenMP runtime that oneDNN uses too. Parts are cut by shape
// and never by the number of threads, so results do not depend on it.
namespace traingraph::cpu {

// Threads worth waking for work that takes one thread about this long. Asked when a kernel is
// made; a fork and join costs about a microsecond.
int threads_for(double nanoseconds);

// Nanoseconds one thread needs to move bytes that may come from memory.
inline double nanoseconds_to_move(double bytes) { return bytes / 40.0; }

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

}  // namespace traingraph::cpu
