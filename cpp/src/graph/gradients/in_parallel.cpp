#include "graph/gradients/in_parallel.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <traingraph/mutex.h>

#include "runtime/threads/interruption.h"

namespace traingraph {

void in_parallel(std::size_t count, std::size_t workers,
                 const std::function<void(std::size_t worker, std::size_t k)>& work) {
  std::atomic<std::size_t> next = 0;
  Mutex mutex;
  std::exception_ptr error;
  const auto run = [&](std::size_t worker) {
    Interruptible interruption;
    try {
      for (std::size_t k = next++; k < count; k = next++) {
        if (worker == 0) interruption.check();
        work(worker, k);
      }
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      error = std::current_exception();
    }
  };
  std::vector<std::thread> threads;  // jthread is not on macOS 12
  threads.reserve(workers);
  try {
    for (std::size_t worker = 1; worker < workers; ++worker) threads.emplace_back(run, worker);
  } catch (const std::exception&) {
    // The system has no more: those that are there do all the work.
  }
  run(0);
  for (std::thread& thread : threads) thread.join();
  if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace traingraph
