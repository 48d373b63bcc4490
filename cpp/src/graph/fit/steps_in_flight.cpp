// Submits the steps of an epoch and takes their losses.
#include "graph/fit/steps_in_flight.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include <traingraph/errors.h>

#include "ir/number_text.h"
#include "runtime/device_memory.h"

namespace traingraph {
namespace {

void finish(const Execution& step) {
  try {
    step.wait();
  } catch (...) {
    // Somebody has heard of the first one, which is an answer.
  }
}

}  // namespace

StepsInFlight::StepsInFlight(const GraphState& state, const Backend& device,
                             const FitArguments& fit, LossSum loss, FitProgress& progress)
    : state_(state), fit_(fit), loss_(loss), progress_(progress) {
  // What is checked can be refused before it trains, and then nothing may follow.
  waits_ = uses_host_memory(device) || has(fit.options, ExecutionOptions::kCheckNumerics);
  options_ = waits_ ? fit.options | ExecutionOptions::kSynchronous : ExecutionOptions::kNone;
}

void StepsInFlight::add(Executor& executor, Samples::Batch& batch) {
  batch.arguments.options = options_;
  Execution step = executor.submit(Run::step, batch.arguments,
                                   {.call = "fit",
                                    .rows = batch.chosen,
                                    .samples = batch.samples,
                                    .keeps_bound = true,
                                    .global = batch.global});
  const std::int64_t rows = batch.global ? batch.global->rows : batch.arguments.batch_size;
  begun_.push_back({std::move(step), rows});
  while (begun_.size() > (waits_ ? 0 : allowed())) take_first();
}

void StepsInFlight::wait() {
  while (!begun_.empty()) take_first();
}

void StepsInFlight::give_up() {
  try {
    wait();
  } catch (...) {
    for (const Begun& step : begun_) finish(step.execution);
    begun_.clear();
  }
}

std::size_t StepsInFlight::allowed() const {
  // All ranks have to submit as many before they hear that a fit is to end.
  if (state_.ranks != nullptr) return kOfRanks;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
  const double each =
      seconds.count() / static_cast<double>(std::max<std::int64_t>(progress_.steps - before_, 1));
  return static_cast<std::size_t>(std::clamp(kMostSeconds / each, 1.0, static_cast<double>(kMost)));
}

void StepsInFlight::take_first() {
  // Stays in front where the wait is ended.
  const Begun& first = begun_.front();
  const double loss = state_.ranks != nullptr ? add_over_ranks(first)
                                              : loss_.add(first.execution.result(), first.rows);
  begun_.pop_front();
  ++progress_.steps;
  progress_.loss = loss_.value();
  if (!std::isfinite(loss)) report(loss);
  if (fit_.on_step) fit_.on_step(progress_);
}

double StepsInFlight::add_over_ranks(const Begun& step) {
  const TensorData result = step.execution.result();
  LossSum own = loss_.none();
  if (step.rows != 0) own.add(result, step.rows);
  const bool goes_on = !fit_.goes_on || fit_.goes_on();
  std::array<double, 3> numbers{own.sum(), static_cast<double>(own.count()), goes_on ? 0.0 : 1.0};
  state_.ranks->add(numbers);
  loss_.add(numbers[0], static_cast<std::int64_t>(numbers[1]));
  are_to_end_ = are_to_end_ || numbers[2] != 0;
  return numbers[0];
}

// Of the epoch's first one alone: those that follow are none either.
void StepsInFlight::report(double loss) {
  if (std::exchange(found_infinite_loss_, true)) return;
  const std::string text = "the loss is " + short_text(loss) + " in step " +
                           std::to_string(progress_.steps) + " of epoch " +
                           std::to_string(progress_.epoch);
  if (fit_.on_nonfinite) return fit_.on_nonfinite(text);
  throw NumericError("[fit] expected a loss that is finite but " + text +
                     ", which has trained; CHECK_NUMERICS finds the tensor before a step trains");
}

}  // namespace traingraph
