// `Stream`, an order of work that calling threads and one worker run, and `Task`, a unit of it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/threads/waiting.h"

namespace traingraph {

// One unit of queued work. Runs once, on the worker or on a thread that waits for it.
struct Task {
  // Returns what is left to do when a device is done with it, or nothing. Neither may throw.
  std::function<std::function<void()>()> work;
  // Whether something may be left: tasks behind it may then begin before that.
  bool defers_rest = false;
  // Whether the thread that submits it is likely to wait for it. Then it runs there, for a change
  // of threads costs a team of helpers more than a moment's patience. What leaves something begins
  // at once, if nothing stands before it; the worker does what is left when nobody has for a while.
  bool is_awaited = false;
  // No work: the place of a thread that is to take the stream.
  bool is_turn = false;
  // Guarded by the stream's mutex.
  std::function<void()> rest;
  std::chrono::steady_clock::time_point begun;
  Holder runner{0};  // the thread that works on it, or has the turn
  std::atomic<bool> done{false};
};
// A queue of them. Whoever queues one brings its place, so that nothing fails then.
using Tasks = std::list<std::shared_ptr<Task>>;

// For who must not fail later. Raises DeviceError where the worker is not there and no thread can
// be started; the next call tries again.
void start_worker();

// An order of work, not a thread. Work that may take its time runs on the calling thread; only what
// was submitted runs on the worker, of which the process has one. Streams that come to share a
// tensor are merged and from then on are one order.
//
// Who holds a stream and waits, in a completion handler, for another thread lends it to that one:
// otherwise both would wait for ever. Work on a lent stream runs as the handler's own would.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  // Runs work on this thread after everything submitted before. Work submitted or run by the
  // thread that holds the stream (a completion handler) runs at once. Raises what ends a wait.
  void run(const std::function<void()>& work);
  // Of one task. Raises DeviceError in a child of the process that used it, or without a worker;
  // else the task is queued.
  void submit(Tasks task);
  // Takes the stream for this thread, until it is given back, if nothing is on it: what costs a
  // small step least.
  bool take_if_free();
  void give_back() noexcept;
  // As `submit`, for a thread that goes on to `wait`; not where it holds the stream, which is then
  // its own to work on.
  bool take_place(Tasks& task);
  // Returns when the task is done; runs it here when nothing stands before it. Raises what ends a
  // wait, and InvalidArgument where the task itself waits for this thread.
  void wait(const std::shared_ptr<Task>& task);

  // For a thread that has waited amid its work, and has lent the stream: holds what that has become
  // meanwhile, for its own lifetime, where this thread does not.
  class Hold {
   public:
    Hold() = default;
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    void take(const std::shared_ptr<Stream>& stream);

   private:
    std::shared_ptr<Stream> held_;
  };

  // The stream that this one has become.
  static std::shared_ptr<Stream> root(std::shared_ptr<Stream> stream);
  // Makes both one order, after both are idle, for a thread that works on `a` or on neither. Takes
  // the compilation lock.
  static void merge(const std::shared_ptr<Stream>& a, const std::shared_ptr<Stream>& b);

 private:
  friend class Worker;
  // Takes the stream for this thread, which runs what stands before; returns false when the thread
  // already holds it or it is lent to it. What is submitted meanwhile comes later: others may do
  // that without end.
  bool acquire_idle(std::unique_lock<Mutex>& lock);
  bool wait_for_turn(std::unique_lock<Mutex>& lock, const std::shared_ptr<Task>& turn);
  bool has_front() const { return !tasks_.empty() && !tasks_.front()->is_turn; }
  void hold();
  void release(std::unique_lock<Mutex>& lock) noexcept;
  // Where the first task may take its time and the worker is free for it: leaves it to the worker,
  // for a moment, so that what interrupts this thread ends its wait. False: this thread runs it, as
  // it does when the worker has not taken it within so many moments. Releases the lock where it is
  // true. The stream must be free.
  bool leave_front(std::unique_lock<Mutex>& lock, int& moments);
  // Runs the first task, which must not be a turn; the stream must be free. Leaves the lock
  // released.
  void run_front(std::unique_lock<Mutex>& lock);
  // The same inside the task that this thread is in, or that lends the stream, whoever else has a
  // turn. False, and nothing else, where there is no task.
  bool run_inside(std::unique_lock<Mutex>& lock);
  // Counted by what threads have taken; 0 where this one does not hold it.
  std::uint64_t held_here_since();
  bool is_mine() const { return busy_ && holder_ == this_thread(); }
  // A part of a wait; leaves the lock released.
  void wait_a_while(const std::shared_ptr<Task>& task, int& moments);
  void take_over(Stream& other);
  // Does what is left of begun tasks, oldest first, until so many remain.
  void finish_begun(std::unique_lock<Mutex>& lock, std::size_t remain);
  // On the worker: does what is left of the oldest task if nobody has for a while. When to look
  // again, unless nothing is left.
  std::optional<std::chrono::steady_clock::time_point> finish_old();

  Mutex mutex_;
  Condition changed_;
  Tasks tasks_;
  Tasks begun_;              // something is left of them
  bool is_watched_ = false;  // by the worker, because of them
  int long_for_ = 1;         // so many of the next tasks are expected to take their time
  bool busy_ = false;
  Holder holder_{0};              // meaningful while busy
  std::uint64_t held_since_ = 0;  // counts what threads have taken
  std::atomic<Stream*> merged_into_{nullptr};
  std::shared_ptr<Stream> merged_owner_;  // keeps it alive

  // Places in the worker's lists, which have them while the stream is there; guarded by its mutex.
  using Place = std::list<std::shared_ptr<Stream>>;
  Place ready_place_ = Place(1), watched_place_ = Place(1);
  bool is_awaited_ = false;                        // what it is ready for
  std::chrono::steady_clock::time_point look_at_;  // when it is looked at next
};

}  // namespace traingraph
