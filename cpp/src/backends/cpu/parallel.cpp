#include "backends/cpu/parallel.h"

#include <algorithm>

#include <traingraph/device.h>

namespace traingraph::cpu {

int threads_for(double nanoseconds) {
  // Each further thread has to save more than it costs to wake; and where other programs use the
  // cores too, every fork may wait for the scheduler, so that small work does better alone.
  constexpr double kLeastShare = 20000;
  const double useful = std::max(1.0, nanoseconds / kLeastShare);
  return static_cast<int>(std::min<double>(useful, std::max(1, Platform::thread_count())));
}

void run_parts(std::int64_t parts, [[maybe_unused]] int threads,
               void (*body)(const void*, std::int64_t), const void* context) {
#if defined(_OPENMP)
#pragma omp parallel for schedule(static) num_threads(threads)
#endif
  for (std::int64_t part = 0; part < parts; ++part) body(context, part);
}

}  // namespace traingraph::cpu
