// The OpenMP threads that work with a calling thread: whether they can be started, and how many the
// kernels of a program ask for.
#pragma once

namespace traingraph {

// Before a parallel region of so many threads, and before a step that has one: raises DeviceError
// where this thread's team cannot be started, OutOfMemory where the stacks find no memory. The
// OpenMP runtime would end the process. It keeps the threads that it has, so this is looked at once
// per calling thread and number.
void expect_team(int threads);

// Called by what chooses a number of threads for a kernel that is made.
void note_threads(int threads);

// The most that this thread has noted in its lifetime, at least 1.
class NotedThreads {
 public:
  NotedThreads();
  ~NotedThreads();
  NotedThreads(const NotedThreads&) = delete;
  NotedThreads& operator=(const NotedThreads&) = delete;
  int most() const;

 private:
  int before_;
};

}  // namespace traingraph
