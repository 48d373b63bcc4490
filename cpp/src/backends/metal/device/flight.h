#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include <traingraph/mutex.h>

namespace traingraph::metal {

// The command buffers that were committed and are not done. Numbers rise in the order of commits,
// in which the queue works. Completion handlers call end() on threads of Metal's.
class Flight {
 public:
  using Number = std::uint64_t;

  // Call right before the commit.
  Number begin();
  // An empty error: it has succeeded.
  void end(Number number, double seconds, std::string error);

  bool idle() const;
  // Whether all up to this number are done.
  bool done(Number number) const;
  Number last() const;
  // Returns when all up to this number are done. Raises DeviceError for the first failure that
  // nobody has seen.
  void wait(Number number);
  // The same for those behind `after`, whether somebody has seen the failure or not.
  void wait_for_run(Number after, Number number);
  // Seconds of work of what is done.
  double seconds() const;

 private:
  struct Failure {
    Number number;
    std::string error;
    bool seen = false;
  };
  bool done_up_to(Number number) const;  // call with mutex_
  void wait_done(std::unique_lock<Mutex>& lock, Number number);

  mutable Mutex mutex_;  // guards what follows
  Condition changed_;
  Number last_ = 0;
  std::vector<Number> flying_;
  std::vector<Failure> failures_;
  double seconds_ = 0;
};

}  // namespace traingraph::metal
