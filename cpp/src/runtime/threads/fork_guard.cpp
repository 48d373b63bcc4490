// Numbers of threads, and what a child after fork() is told of its parent.
#include "runtime/threads/fork_guard.h"

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>
#include <string>

#include <traingraph/errors.h>
#include <traingraph/mutex.h>

namespace traingraph {

std::atomic<int> detail::forks{0};

namespace {

std::atomic<ThreadId> last_thread{0};
thread_local ThreadId own_id = 0;

std::atomic<bool> has_executed{false};
std::atomic<int> in_libraries{0};
thread_local int in_libraries_here = 0;

// Of a child.
struct Fork {
  bool is_after_execution = false;
  bool is_amid_library_call = false;
  ThreadId last_of_parent = 0;
  ThreadId forking = 0;
};
Fork last_fork;

// Never destroyed: threads may go on while the process ends.
alignas(std::mutex) std::byte first_uses_place[sizeof(std::mutex)];
std::mutex* first = new (first_uses_place) std::mutex;

// The one thread of the child runs this before it returns from fork().
void note_fork() {
  last_fork = {last_fork.is_after_execution || has_executed,
               last_fork.is_amid_library_call || in_libraries > in_libraries_here, last_thread,
               own_id};
  in_libraries = in_libraries_here;
  first = new (first_uses_place) std::mutex;
  ++detail::forks;
}

[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, note_fork);

constexpr const char* kAdvice = "; start workers with the 'spawn' method, or before ";

}  // namespace

std::mutex& detail::first_uses() { return *first; }

ThreadId this_thread() noexcept {
  if (own_id == 0) own_id = ++last_thread;
  return own_id;
}

bool is_gone(ThreadId thread) noexcept {
  return thread != 0 && thread <= last_fork.last_of_parent && thread != last_fork.forking;
}

void check_not_forked() {
  if (last_fork.is_after_execution) {
    throw DeviceError(
        std::string("[execute] this process was forked from one that had executed a graph, and its "
                    "threads are gone") +
        kAdvice + "the first execution");
  }
  if (!has_executed.load(std::memory_order_relaxed)) has_executed = true;
}

void raise_gone() {
  throw DeviceError(
      std::string("[fork] this process was forked while another thread of its parent was in a call "
                  "that this one would wait for, and that thread is gone") +
      kAdvice + "other threads use the library");
}

void detail::refuse_lost_lock() { raise_gone(); }

LibraryCall::LibraryCall() {
  if (last_fork.is_amid_library_call) raise_gone();
  ++in_libraries;
  ++in_libraries_here;
}

LibraryCall::~LibraryCall() {
  --in_libraries_here;
  --in_libraries;
}

}  // namespace traingraph
