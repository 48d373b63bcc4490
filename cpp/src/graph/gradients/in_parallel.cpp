// Shares work among threads, of which the calling one hears interruptions.
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
namespace {

// What a thread works for; null: for nobody else.
thread_local const std::atomic<bool>* over_here = nullptr;
thread_local bool is_helper = false;

// Of a helper, whose error is not the first.
struct Over {};

}  // namespace

void check_part() {
  thread_local Interruptible interruption;
  if (over_here != nullptr && *over_here) throw Over();
  if (!is_helper) interruption.check();
}

void in_parallel(std::size_t count, std::size_t workers,
                 const std::function<void(std::size_t worker, std::size_t k)>& work) {
  std::atomic<std::size_t> next = 0;
  Mutex mutex;
  std::exception_ptr error;
  std::atomic<bool> over = false;
  const auto run = [&](std::size_t worker) {
    over_here = &over;
    is_helper = worker != 0;
    try {
      for (std::size_t k = next++; k < count; k = next++) {
        check_part();
        work(worker, k);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (error == nullptr) error = std::current_exception();
      over = true;
    }
    over_here = nullptr;
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
