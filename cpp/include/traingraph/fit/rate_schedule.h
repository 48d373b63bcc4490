#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <traingraph/export.h>

namespace traingraph {

struct ClassDescription;

// A learning rate for each step, counted from 0 by the updates that the optimizer has made. A rate
// compiles nothing.
class TRAINGRAPH_API RateSchedule {
 public:
  // Finite for every step.
  using Rate = std::function<double(std::int64_t step)>;

  explicit RateSchedule(Rate rate, std::string text = "RateSchedule");

  static RateSchedule constant(double rate);
  // rate factor^(step / every), the quotient rounded down.
  static RateSchedule steps(double rate, std::int64_t every, double factor = 0.1);
  // rate factor^(step / every)
  static RateSchedule exponential(double rate, double factor, std::int64_t every = 1);
  // Half a cosine from rate to last in so many steps; then last.
  static RateSchedule cosine(double rate, std::int64_t steps, double last = 0);
  // A line from rate / steps to rate in so many steps; then rate.
  static RateSchedule warm_up(double rate, std::int64_t steps);
  // Half a cosine from most / 25 to most in the share `rising` of the steps, and half a cosine from
  // there to most / 250,000; then that. A share of less than a step begins with the fall.
  static RateSchedule one_cycle(double most, std::int64_t steps, double rising = 0.3);
  // The first one until the first boundary, the second from there, which counts from 0 again, ….
  static RateSchedule joined(const std::vector<RateSchedule>& schedules,
                             const std::vector<std::int64_t>& boundaries);

  // Raises InvalidArgument for a rate that is not finite or below 0, or a step below 0.
  double operator()(std::int64_t step) const;
  // "cosine(0.1, 1000)"
  const std::string& text() const { return text_; }
  static const ClassDescription& class_description();

 private:
  Rate rate_;
  std::string text_;
};

}  // namespace traingraph
