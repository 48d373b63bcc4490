// Training, epoch by epoch.
#include <traingraph/fit.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include <traingraph/errors.h>
#include <traingraph/loss.h>

#include "graph/fit/given_samples.h"
#include "graph/fit/metrics.h"
#include "graph/fit/rows_beside_samples.h"
#include "graph/fit/steps_in_flight.h"
#include "graph/run/executor.h"

namespace traingraph {
namespace {

constexpr const char* kFit = "[fit]";

using Clock = std::chrono::steady_clock;

// What says something of one execution alone.
constexpr std::pair<ExecutionOptions, const char*> kNotOfFit[] = {
    {ExecutionOptions::kSkipWritingInputDataToDevice, "SKIP_WRITING_INPUT_DATA_TO_DEVICE"},
    {ExecutionOptions::kProfiling, "PROFILING"},
    {ExecutionOptions::kForwardForInference, "FORWARD_FOR_INFERENCE"},
    {ExecutionOptions::kPerLayerProfiling, "PER_LAYER_PROFILING"},
};

// What the order of samples follows from; `before` are epochs that this fit goes on behind.
struct ShuffleOrder {
  std::optional<std::uint64_t> seed;  // none: as given
  std::int64_t before = 0;
};

// A seed that a checkpoint has as a negative number could not be given to a fit.
constexpr std::uint64_t kMostSeed = std::numeric_limits<std::int64_t>::max();

// Of a fit of so many batches per epoch. Without a seed of its own the graph says how many epochs
// of them its forward passes are, which both are in checkpoints.
ShuffleOrder order_of(GraphState& state, const FitArguments& arguments, std::int64_t batches) {
  if (!arguments.shuffle) {
    if (!arguments.shuffle_seed) return {};
    throw InvalidArgument("[fit] expected no shuffle_seed where shuffle is off but got " +
                          std::to_string(*arguments.shuffle_seed));
  }
  if (arguments.shuffle_seed) return {arguments.shuffle_seed};
  ShuffleOrder order;
  state.current_executor("fit")->run_between([&] {
    const std::lock_guard lock(structure());
    order.seed = state.random_seed & kMostSeed;
    order.before = *state.forward_count * state.micro_batches / batches;
  });
  return order;
}

[[noreturn]] void refuse_to_shuffle(const std::string& what) {
  throw InvalidArgument("[fit] expected samples of '" + what +
                        "' too, whose rows stay in their places while the others are shuffled; "
                        "pass them, or shuffle=False");
}

// Raises where the order would move samples, and leave rows of other data in their places.
void check_all_are_shuffled(const GraphState& state, const FitArguments& arguments) {
  const auto check = [](const NamedTensors& declared, const NamedData& given) {
    for (const auto& [name, tensor] : declared) {
      const auto is_it = [&what = name](const auto& data) { return data.first == what; };
      if (tensor->descriptor().shape[0] == 1 || std::ranges::any_of(given, is_it)) continue;
      refuse_to_shuffle(name);
    }
  };
  const std::shared_ptr<const GraphState> now = state.snapshot();
  check(now->inputs, arguments.inputs);
  check(now->loss_labels, arguments.loss_labels);
  check(now->loss_label_weights, arguments.loss_label_weights);
  const NamedTensors beside = rows_beside_samples(*now);
  if (!beside.empty()) refuse_to_shuffle(beside.front().first);
}

void check(const FitArguments& arguments) {
  if (arguments.first_epoch < 1) {
    throw InvalidArgument("[fit] expected first_epoch of at least 1 but got " +
                          std::to_string(arguments.first_epoch));
  }
  if (arguments.epochs < arguments.first_epoch) {
    throw InvalidArgument(arguments.first_epoch == 1
                              ? "[fit] expected at least 1 epoch but got " +
                                    std::to_string(arguments.epochs)
                              : "[fit] expected epochs, the number of the last one, of at least " +
                                    std::to_string(arguments.first_epoch) +
                                    ", the first one, but "
                                    "got " +
                                    std::to_string(arguments.epochs));
  }
  for (const auto& [option, name] : kNotOfFit) {
    if (!has(arguments.options, option)) continue;
    throw InvalidArgument(
        std::string("[fit] expected options of SYNCHRONOUS and CHECK_NUMERICS but got ") + name);
  }
  if (!arguments.metrics.empty() && !arguments.validation) {
    throw InvalidArgument("[fit] expected validation, which metrics are of, but got none");
  }
  const auto is_null = [](const FitCallbackPtr& callback) { return callback == nullptr; };
  if (std::ranges::any_of(arguments.callbacks, is_null)) {
    throw InvalidArgument("[fit] expected callbacks but got a null pointer");
  }
}

// Says in `goes_on` whether all of it was evaluated.
FitArguments validation_of(const FitArguments& fit, std::int64_t batch, bool& goes_on) {
  if (!fit.validation) return {};
  FitArguments arguments;
  arguments.inputs = fit.validation->inputs;
  arguments.loss_labels = fit.validation->loss_labels;
  arguments.loss_label_weights = fit.validation->loss_label_weights;
  arguments.batch_size = batch;
  arguments.metrics = fit.metrics;
  arguments.goes_on = [&fit, &goes_on] { return goes_on = !fit.goes_on || fit.goes_on(); };
  return arguments;
}

void check_samples(const GraphState& state, const FitArguments& validation) {
  try {
    samples_of(state, validation, true, kFit);
  } catch (Error& error) {
    error.add(" in the validation");
    throw;
  }
}

// Of the next step: the time steps of those that were submitted are counted.
void set_rate(Optimizer& optimizer, const RateSchedule& schedule) {
  optimizer.set_learning_rate(static_cast<float>(schedule(optimizer.time_step() - 1)));
}

}  // namespace

std::vector<Epoch> TrainingGraph::fit(const FitArguments& arguments) {
  check(arguments);
  FitProgress kept;
  FitProgress& progress = arguments.progress != nullptr ? *arguments.progress : kept;
  progress = {};
  const LossDescriptor& loss = loss_of(*state_, kFit).descriptor();
  Samples samples = samples_of(*state_, arguments, true, kFit);
  const std::int64_t batch = batch_size_of(*state_, arguments.batch_size, samples.count(), kFit);
  const std::int64_t rest = samples.count() % batch;
  if (rest != 0) state_->current_executor("fit")->check_batch(rest);
  progress.all_steps = (samples.count() + batch - 1) / batch;
  const ShuffleOrder order = order_of(*state_, arguments, progress.all_steps);
  if (order.seed) check_all_are_shuffled(*state_, arguments);
  bool goes_on = true;
  const FitArguments validation = validation_of(arguments, batch, goes_on);
  if (arguments.validation) check_samples(*state_, validation);
  for (const std::string& name : arguments.metrics) make_metric(name, loss.type, kFit);
  if (arguments.schedule && optimizer() == nullptr) {
    throw InvalidArgument("[fit] expected an optimizer for the schedule but the graph has none");
  }
  for (const FitCallbackPtr& callback : arguments.callbacks) callback->begin(*this);
  for (int number = arguments.first_epoch; goes_on && number <= arguments.epochs; ++number) {
    Epoch epoch;
    epoch.number = progress.epoch = number;
    epoch.shuffle_seed = order.seed;
    progress.steps = 0;
    const Backend& device = state_->current_executor("fit")->backend();
    if (order.seed) {
      const int nth = arguments.shuffle_seed ? number : number - arguments.first_epoch + 1;
      samples.shuffle(*order.seed, order.before + nth, device);
    }
    const Clock::time_point start = Clock::now();
    StepsInFlight steps(device, arguments, loss.reduction, progress);
    try {
      for (std::int64_t first = 0; first < samples.count(); first += batch) {
        if (arguments.goes_on && !arguments.goes_on()) {
          steps.wait();
          return progress.epochs;
        }
        if (arguments.schedule) set_rate(*optimizer(), *arguments.schedule);
        const std::int64_t rows = std::min(batch, samples.count() - first);
        steps.add(*state_->current_executor("fit"), samples.batch(first, rows));
      }
      steps.wait();
    } catch (Error& error) {
      steps.give_up();
      if (!steps.found_infinite_loss()) {
        error.add(" in step " + std::to_string(progress.steps + 1) + " of epoch " +
                  std::to_string(number));
      }
      throw;
    } catch (...) {
      steps.give_up();
      throw;
    }
    epoch.loss = steps.loss();
    epoch.steps = progress.steps;
    epoch.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (const OptimizerPtr used = optimizer()) epoch.learning_rate = used->learning_rate();
    progress.epochs.push_back(epoch);
    if (arguments.validation) {
      const Evaluation found = evaluate(validation);
      if (!goes_on) return progress.epochs;
      epoch.validation = progress.epochs.back().validation = found;
    }
    for (const FitCallbackPtr& callback : arguments.callbacks) {
      goes_on = callback->after_epoch(*this, epoch) && goes_on;
    }
    if (arguments.on_epoch) goes_on = arguments.on_epoch(epoch) && goes_on;
  }
  for (const FitCallbackPtr& callback : arguments.callbacks) callback->end(*this);
  return progress.epochs;
}

}  // namespace traingraph
