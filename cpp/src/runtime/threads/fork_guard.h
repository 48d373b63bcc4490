// What a child after fork() must know: which threads are gone, and what it may no longer do.
#pragma once

#include <cstdint>

namespace traingraph {

// Counts the threads of a process and of those that it was forked from: in a child, pthreads gives
// the numbers of those that are gone to new threads. 0: none.
using ThreadId = std::uint64_t;
ThreadId this_thread() noexcept;
// Whether it was another thread of a parent.
bool is_gone(ThreadId thread) noexcept;

// Raises DeviceError in a child forked after this process has executed a graph: the thread pools of
// the parent do not exist there, and waiting for them would hang for ever.
void check_not_forked();
// Raises DeviceError: what a call would wait for is a thread that is gone.
[[noreturn]] void raise_gone();

// Around calls of a vendor's library that has locks of its own. Raises DeviceError in a child if
// another thread was in such a call at the fork.
class LibraryCall {
 public:
  LibraryCall();
  ~LibraryCall();
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;
};

}  // namespace traingraph
