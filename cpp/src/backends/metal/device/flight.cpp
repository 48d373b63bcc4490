// Waiting for command buffers that were committed and are not done.
#include "backends/metal/device/flight.h"

#include <algorithm>

#include <traingraph/errors.h>
#include <traingraph/mutex.h>

namespace traingraph::metal {

Flight::Number Flight::begin() {
  const std::lock_guard lock(mutex_);
  flying_.push_back(++last_);
  return last_;
}

void Flight::end(Number number, double seconds, std::string error) {
  {
    const std::lock_guard lock(mutex_);
    std::erase(flying_, number);
    seconds_ += seconds;
    if (!error.empty()) failures_.push_back({number, std::move(error)});
  }
  changed_.notify_all();
}

bool Flight::idle() const {
  const std::lock_guard lock(mutex_);
  return flying_.empty();
}

bool Flight::done_up_to(Number number) const {
  return std::all_of(flying_.begin(), flying_.end(), [&](Number n) { return n > number; });
}

bool Flight::done(Number number) const {
  const std::lock_guard lock(mutex_);
  return done_up_to(number);
}

Flight::Number Flight::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

double Flight::seconds() const {
  const std::lock_guard lock(mutex_);
  return seconds_;
}

void Flight::wait_done(std::unique_lock<Mutex>& lock, Number number) {
  changed_.wait(lock, [&] { return done_up_to(number); });
}

void Flight::wait(Number number) {
  std::unique_lock lock(mutex_);
  wait_done(lock, number);
  for (Failure& failure : failures_) {
    if (failure.seen || failure.number > number) continue;
    failure.seen = true;
    throw DeviceError(failure.error);
  }
}

void Flight::wait_for_run(Number after, Number number) {
  std::unique_lock lock(mutex_);
  wait_done(lock, number);
  for (Failure& failure : failures_) {
    if (failure.number <= after || failure.number > number) continue;
    failure.seen = true;
    throw DeviceError(failure.error);
  }
}

}  // namespace traingraph::metal
