// Runs the work of committed command buffers, at once or on a thread that stands for the GPU.
#include "gpu_thread.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime.h"

namespace {

struct Gpu {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> waiting;  // the first may be running
  bool has_thread = false, holds = false;
  std::int64_t until_failure = -1;  // command buffers that succeed before one fails; -1: none does

  void loop() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return !waiting.empty() && !holds; });
      const std::function<void()> work = waiting.front();
      lock.unlock();
      work();
      lock.lock();
      waiting.pop_front();
      changed.notify_all();
    }
  }
};

// Never destroyed, as its thread is not.
Gpu& gpu() {
  static auto* const only = new Gpu;
  return *only;
}

}  // namespace

namespace apple {

void run_on_gpu(std::function<void()> work) {
  {
    const std::lock_guard lock(gpu().mutex);
    if (gpu().has_thread) {
      gpu().waiting.push_back(std::move(work));
      gpu().changed.notify_all();
      return;
    }
  }
  work();
}

void wait_for_gpu(const std::function<bool()>& is_so) {
  std::unique_lock lock(gpu().mutex);
  gpu().changed.wait(lock, is_so);
}

bool fails_now() {
  const std::lock_guard lock(gpu().mutex);
  if (gpu().until_failure < 0) return false;
  return gpu().until_failure-- == 0;
}

}  // namespace apple

void apple_gpu_start_thread() {
  const std::lock_guard lock(gpu().mutex);
  if (std::exchange(gpu().has_thread, true)) return;
  std::thread([] { gpu().loop(); }).detach();
}

void apple_gpu_hold(int holds) {
  const std::lock_guard lock(gpu().mutex);
  gpu().holds = holds != 0;
  gpu().changed.notify_all();
}

std::int64_t apple_gpu_waiting() {
  const std::lock_guard lock(gpu().mutex);
  return static_cast<std::int64_t>(gpu().waiting.size());
}

void apple_gpu_fail_after(std::int64_t command_buffers) {
  const std::lock_guard lock(gpu().mutex);
  gpu().until_failure = command_buffers;
}
