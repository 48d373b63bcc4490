#include "backends/cpu/parallel.h"

#include <exception>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include <traingraph/device.h>

#include "runtime/threads/team.h"

namespace traingraph::cpu {

int threads_for(double nanoseconds) {
  // Each further thread has to save more than it costs to wake; and where other programs use the
  // cores too, every fork may wait for the scheduler, so that small work does better alone.
  constexpr double kLeastShare = 20000;
  const double useful = std::max(1.0, nanoseconds / kLeastShare);
  const auto threads =
      static_cast<int>(std::min<double>(useful, std::max(1, Platform::thread_count())));
  note_threads(threads);
  return threads;
}

void run_parts(std::int64_t parts, [[maybe_unused]] int threads,
               void (*body)(const void*, std::int64_t), const void* context) {
  expect_team(threads);
  std::exception_ptr error;
  std::atomic_flag failed;
  SharedTasks tasks;
  tasks.share_out(parts, threads);
  const auto run = [&](int thread) {
    tasks.take_all(thread, 1, [&](std::int64_t part, std::int64_t) {
      // An exception that leaves the thread would end the process.
      try {
        body(context, part);
      } catch (...) {
        if (!failed.test_and_set()) error = std::current_exception();
      }
    });
  };
#if defined(_OPENMP)
#pragma omp parallel num_threads(threads)
  run(omp_get_thread_num());
#else
  run(0);
#endif
  if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace traingraph::cpu
