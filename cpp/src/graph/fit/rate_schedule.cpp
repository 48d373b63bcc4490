// Learning rates by step.
#include <traingraph/fit/rate_schedule.h>

#include <cmath>
#include <numbers>
#include <utility>

#include <traingraph/errors.h>

#include "ir/number_text.h"

namespace traingraph {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& got) {
  throw InvalidArgument("[RateSchedule] expected " + what + " but got " + got);
}

void expect_finite(const char* name, double value) {
  if (!std::isfinite(value)) refuse(std::string(name) + ": a finite number", short_text(value));
}

void expect_rate(const char* name, double rate) {
  expect_finite(name, rate);
  if (rate < 0) refuse(std::string(name) + " of at least 0", short_text(rate));
}

void expect_steps(const char* name, std::int64_t steps) {
  if (steps < 1) refuse(std::string(name) + " of at least 1", std::to_string(steps));
}

std::string text_of(const std::string& name, std::initializer_list<std::string> arguments) {
  std::string text;
  for (const std::string& argument : arguments) text += (text.empty() ? "" : ", ") + argument;
  return name + "(" + text + ")";
}

// From one rate to another on half a cosine, a share of the way.
double between(double from, double to, double share) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * share)) / 2;
}

double share_of(std::int64_t step, std::int64_t steps) {
  return static_cast<double>(step) / static_cast<double>(steps);
}

}  // namespace

RateSchedule::RateSchedule(Rate rate, std::string text)
    : rate_(std::move(rate)), text_(std::move(text)) {
  if (!rate_) refuse("a function of the step", "none");
}

double RateSchedule::operator()(std::int64_t step) const {
  if (step < 0) refuse("a step of at least 0", std::to_string(step));
  const double rate = rate_(step);
  if (!std::isfinite(rate)) {
    refuse("a finite rate of " + text_ + " in step " + std::to_string(step), short_text(rate));
  }
  if (rate < 0) {
    refuse("a rate of at least 0 of " + text_ + " in step " + std::to_string(step),
           short_text(rate));
  }
  return rate;
}

RateSchedule RateSchedule::constant(double rate) {
  expect_rate("rate", rate);
  return RateSchedule([rate](std::int64_t) { return rate; },
                      text_of("constant", {short_text(rate)}));
}

RateSchedule RateSchedule::steps(double rate, std::int64_t every, double factor) {
  expect_rate("rate", rate);
  expect_rate("factor", factor);
  expect_steps("every", every);
  return RateSchedule(
      [=](std::int64_t step) { return rate * std::pow(factor, static_cast<double>(step / every)); },
      text_of("steps", {short_text(rate), std::to_string(every), short_text(factor)}));
}

RateSchedule RateSchedule::exponential(double rate, double factor, std::int64_t every) {
  expect_rate("rate", rate);
  if (!(factor > 0) || !std::isfinite(factor)) refuse("factor above 0", short_text(factor));
  expect_steps("every", every);
  return RateSchedule(
      [=](std::int64_t step) { return rate * std::pow(factor, share_of(step, every)); },
      text_of("exponential", {short_text(rate), short_text(factor), std::to_string(every)}));
}

RateSchedule RateSchedule::cosine(double rate, std::int64_t steps, double last) {
  expect_rate("rate", rate);
  expect_rate("last", last);
  expect_steps("steps", steps);
  return RateSchedule(
      [=](std::int64_t step) {
        return step < steps ? between(rate, last, share_of(step, steps)) : last;
      },
      text_of("cosine", {short_text(rate), std::to_string(steps), short_text(last)}));
}

RateSchedule RateSchedule::warm_up(double rate, std::int64_t steps) {
  expect_rate("rate", rate);
  expect_steps("steps", steps);
  return RateSchedule(
      [=](std::int64_t step) { return step < steps ? rate * share_of(step + 1, steps) : rate; },
      text_of("warm_up", {short_text(rate), std::to_string(steps)}));
}

RateSchedule RateSchedule::one_cycle(double most, std::int64_t steps, double rising) {
  expect_rate("most", most);
  if (steps < 3) refuse("steps of at least 3", std::to_string(steps));
  if (!(rising > 0 && rising < 1)) refuse("rising between 0 and 1", short_text(rising));
  const double first = most / 25, last = first / 1e4;
  const double top = rising * static_cast<double>(steps) - 1, end = static_cast<double>(steps - 1);
  return RateSchedule(
      [=](std::int64_t step) {
        const auto at = static_cast<double>(step);
        if (at <= top) return top > 0 ? between(first, most, at / top) : most;
        return at < end ? between(most, last, (at - top) / (end - top)) : last;
      },
      text_of("one_cycle", {short_text(most), std::to_string(steps), short_text(rising)}));
}

RateSchedule RateSchedule::joined(const std::vector<RateSchedule>& schedules,
                                  const std::vector<std::int64_t>& boundaries) {
  if (schedules.empty() || boundaries.size() + 1 != schedules.size()) {
    refuse("a boundary between each two of the schedules",
           std::to_string(boundaries.size()) + " for " + std::to_string(schedules.size()));
  }
  std::string text;
  for (std::size_t k = 0; k < schedules.size(); ++k) {
    if (k > 0) {
      const std::int64_t before = k > 1 ? boundaries[k - 2] : 0;
      if (boundaries[k - 1] <= before) {
        refuse("boundaries that rise from above 0",
               std::to_string(boundaries[k - 1]) + " after " + std::to_string(before));
      }
      text += ", " + std::to_string(boundaries[k - 1]) + ": ";
    }
    text += schedules[k].text();
  }
  return RateSchedule(
      [=](std::int64_t step) {
        std::size_t k = 0;
        while (k < boundaries.size() && step >= boundaries[k]) ++k;
        return schedules[k](k == 0 ? step : step - boundaries[k - 1]);
      },
      "joined(" + text + ")");
}

}  // namespace traingraph
