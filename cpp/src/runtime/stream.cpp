#include "runtime/stream.h"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

namespace traingraph {
namespace {

// Of which something is left: more would not keep a device busier.
constexpr std::size_t kMostBegun = 8;

// How long what is awaited may take to be waited for.
constexpr std::chrono::microseconds kPatience{100};

}  // namespace

// The one background thread: takes streams that have tasks, in the order they asked.
class Worker {
 public:
  static Worker& instance() {
    // Never destroyed: joining at exit could wait for work of modules already gone.
    static Worker* worker = new Worker;
    return *worker;
  }

  void enqueue(std::shared_ptr<Stream> stream, bool is_awaited) {
    {
      const std::lock_guard lock(mutex_);
      if (!started_) {
        started_ = true;
        std::thread([this] { loop(); }).detach();
      }
      ready_.emplace_back(std::move(stream), is_awaited);
    }
    changed_.notify_one();
  }

 private:
  // For a moment, or until another thread has taken what there is. It does not sleep: waking up
  // amid the run would hold up a thread that works on it.
  static void leave_to_others(Stream& stream) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < end) {
      {
        const std::lock_guard lock(stream.mutex_);
        if (stream.busy_ || stream.tasks_.empty()) return;
      }
      std::this_thread::yield();
    }
  }

  void loop() {
    for (;;) {
      std::shared_ptr<Stream> stream;
      bool is_awaited = false;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !ready_.empty(); });
        std::tie(stream, is_awaited) = std::move(ready_.front());
        ready_.pop_front();
      }
      if (is_awaited) leave_to_others(*stream);
      std::unique_lock lock(stream->mutex_);
      // Taken by another thread: whoever holds it asks again on release.
      if (stream->busy_ || stream->tasks_.empty()) continue;
      stream->run_front(lock);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<std::shared_ptr<Stream>, bool>> ready_;
  bool started_ = false;
};

bool Stream::acquire_idle(std::unique_lock<std::mutex>& lock) {
  if (busy_ && holder_ == std::this_thread::get_id()) return false;
  changed_.wait(lock, [this] { return !busy_ && tasks_.empty(); });
  busy_ = true;
  holder_ = std::this_thread::get_id();
  return true;
}

void Stream::release(std::unique_lock<std::mutex>& lock) {
  if (!lock.owns_lock()) lock.lock();
  busy_ = false;
  const bool more = !tasks_.empty();
  lock.unlock();
  changed_.notify_all();
  if (more) Worker::instance().enqueue(shared_from_this(), false);
}

void Stream::run(const std::function<void()>& work) {
  if (const std::shared_ptr<Stream> target = root(shared_from_this()); target.get() != this) {
    target->run(work);
    return;
  }
  std::unique_lock lock(mutex_);
  if (!acquire_idle(lock)) {
    lock.unlock();
    work();
    return;
  }
  lock.unlock();
  try {
    work();
  } catch (...) {
    release(lock);
    throw;
  }
  release(lock);
}

void Stream::submit(const std::shared_ptr<Task>& task) {
  bool idle = false;
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(task);
    idle = !busy_;
  }
  if (idle) Worker::instance().enqueue(shared_from_this(), task->is_awaited);
}

void Stream::run_front(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Task> task = std::move(tasks_.front());
  tasks_.pop_front();
  busy_ = true;
  holder_ = std::this_thread::get_id();
  if (!task->leaves) finish_begun(lock, 0);
  lock.unlock();
  std::function<void()> rest = task->work();
  task->work = nullptr;  // it holds the caller's data, and whoever waits holds the task
  lock.lock();
  const bool may_remain = rest != nullptr && !tasks_.empty();
  task->rest = std::move(rest);
  begun_.push_back(task);
  finish_begun(lock, may_remain ? kMostBegun : 0);
  release(lock);
}

void Stream::finish_begun(std::unique_lock<std::mutex>& lock, std::size_t remain) {
  while (begun_.size() > remain) {
    const std::shared_ptr<Task> task = std::move(begun_.front());
    begun_.pop_front();
    if (task->rest != nullptr) {
      lock.unlock();
      task->rest();
      task->rest = nullptr;
      lock.lock();
    }
    task->done = true;
    changed_.notify_all();
  }
}

void Stream::wait(const std::shared_ptr<Task>& task) {
  std::unique_lock lock(mutex_);
  while (!task->done) {
    const bool mine = busy_ && holder_ == std::this_thread::get_id();
    const auto begun = std::find(begun_.begin(), begun_.end(), task);
    if (!busy_ && begun != begun_.end()) {
      busy_ = true;
      holder_ = std::this_thread::get_id();
      finish_begun(lock, static_cast<std::size_t>(begun_.end() - begun) - 1);
      release(lock);
      if (!lock.owns_lock()) lock.lock();
    } else if (!busy_ && !tasks_.empty()) {
      run_front(lock);
      if (!lock.owns_lock()) lock.lock();
    } else if (mine && !tasks_.empty()) {
      // A completion handler waits for later work: it runs inside the handler.
      const std::shared_ptr<Task> next = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (const std::function<void()> rest = next->work()) rest();
      next->work = nullptr;
      lock.lock();
      next->done = true;
    } else {
      changed_.wait(lock);
    }
  }
}

std::shared_ptr<Stream> Stream::root(std::shared_ptr<Stream> stream) {
  while (Stream* next = stream->merged_into_.load(std::memory_order_acquire)) {
    stream = next->shared_from_this();
  }
  return stream;
}

void Stream::merge(const std::shared_ptr<Stream>& a, const std::shared_ptr<Stream>& b) {
  const std::shared_ptr<Stream> first = root(a);
  const std::shared_ptr<Stream> second = root(b);
  if (first == second) return;
  first->run([&] {
    second->run([&] {
      second->merged_owner_ = first;
      second->merged_into_.store(first.get(), std::memory_order_release);
    });
  });
}

}  // namespace traingraph
