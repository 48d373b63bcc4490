// Batches in a loop: training, scoring, predicting.
#include <traingraph/fit.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <limits>

#include <traingraph/errors.h>
#include <traingraph/loss.h>

#include "graph/data/data_binding.h"
#include "graph/fit/accuracy.h"
#include "graph/fit/rows_beside_samples.h"
#include "graph/fit/samples.h"
#include "graph/run/executor.h"
#include "runtime/backend.h"
#include "runtime/device_memory.h"

namespace traingraph {
namespace {

constexpr const char* kFit = "[fit]";
constexpr const char* kEvaluate = "[evaluate]";
constexpr const char* kPredict = "[predict]";

// The loss that the graph's result comes from. `call`, here and below: for messages.
const Loss& loss_of(const GraphState& state, const std::string& call) {
  const auto* given = dynamic_cast<const Loss*>(state.loss_layer.get());
  if (given != nullptr) return *given;
  const std::lock_guard lock(structure());
  const Loss* last = nullptr;
  for (const NodeRecord& node : state.ordered_nodes()) {
    if (const auto* loss = dynamic_cast<const Loss*>(node.layer.get())) last = loss;
  }
  if (last == nullptr) throw InvalidArgument(call + " expected a graph with a loss layer");
  return *last;
}

double sum_of(const TensorData& values) {
  const std::int64_t count = element_count(values.shape);
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    sum += values.data_type == DataType::kFloat64 ? static_cast<const double*>(values.bytes)[i]
                                                  : static_cast<const float*>(values.bytes)[i];
  }
  return sum;
}

// What the reduction would give over all batches together; the mean for reduction none.
class LossSum {
 public:
  explicit LossSum(ReductionType reduction) : reduction_(reduction) {}

  void add(const TensorData& result, std::int64_t rows) {
    const double weight = reduction_ == ReductionType::kMean ? static_cast<double>(rows) : 1.0;
    sum_ += weight * sum_of(result);
    count_ += reduction_ == ReductionType::kMean ? rows : element_count(result.shape);
  }
  double value() const {
    return reduction_ == ReductionType::kSum ? sum_ : sum_ / static_cast<double>(count_);
  }

 private:
  ReductionType reduction_;
  double sum_ = 0;
  std::int64_t count_ = 0;
};

using Clock = std::chrono::steady_clock;

// What says something of one execution alone.
constexpr std::pair<ExecutionOptions, const char*> kNotOfFit[] = {
    {ExecutionOptions::kSkipWritingInputDataToDevice, "SKIP_WRITING_INPUT_DATA_TO_DEVICE"},
    {ExecutionOptions::kProfiling, "PROFILING"},
    {ExecutionOptions::kForwardForInference, "FORWARD_FOR_INFERENCE"},
    {ExecutionOptions::kPerLayerProfiling, "PER_LAYER_PROFILING"},
};

// The steps of an epoch: one after another where the calling thread runs them, else some of them
// before the device while the next ones are submitted, for as long as Ctrl-C may wait.
class StepsInFlight {
 public:
  StepsInFlight(const Backend& device, ExecutionOptions options, ReductionType reduction,
                std::int64_t& done)
      : loss_(reduction), done_(done) {
    // What is checked can be refused before it trains, and then nothing may follow.
    waits_ = uses_host_memory(device) || has(options, ExecutionOptions::kCheckNumerics);
    options_ = waits_ ? options | ExecutionOptions::kSynchronous : ExecutionOptions::kNone;
  }

  void add(Executor& executor, Samples::Batch& batch) {
    batch.arguments.options = options_;
    Execution step =
        executor.submit(Run::step, batch.arguments,
                        {.rows = batch.chosen, .samples = batch.samples, .keeps_bound = true});
    begun_.push_back({std::move(step), batch.arguments.batch_size});
    while (begun_.size() > (waits_ ? 0 : allowed())) take_first();
  }
  void wait() {
    while (!begun_.empty()) take_first();
  }
  // After a failure: those that go well before the first that does not still count.
  void give_up() {
    try {
      wait();
    } catch (...) {
      for (const Begun& step : begun_) finish(step.execution);
      begun_.clear();
    }
  }
  double loss() const { return loss_.value(); }

 private:
  static constexpr std::size_t kMost = 64;
  static constexpr double kMostSeconds = 0.05;
  struct Begun {
    Execution execution;
    std::int64_t rows;
  };

  std::size_t allowed() const {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const double each = seconds / static_cast<double>(std::max<std::int64_t>(done_, 1));
    return static_cast<std::size_t>(
        std::clamp(kMostSeconds / each, 1.0, static_cast<double>(kMost)));
  }
  void take_first() {
    // Stays in front where the wait is ended.
    loss_.add(begun_.front().execution.result(), begun_.front().rows);
    begun_.pop_front();
    ++done_;
  }
  static void finish(const Execution& step) {
    try {
      step.wait();
    } catch (...) {
      // Somebody has heard of the first one, which is an answer.
    }
  }

  LossSum loss_;
  std::int64_t& done_;
  bool waits_ = false;
  ExecutionOptions options_ = ExecutionOptions::kNone;
  std::deque<Begun> begun_;
  Clock::time_point start_ = Clock::now();
};

// `scores`: with what the loss compares.
Samples samples_of(const GraphState& state, const FitArguments& arguments, bool scores,
                   const std::string& call) {
  const std::lock_guard lock(structure());
  Samples samples(declared_batch(state));
  samples.add(arguments.inputs, state.inputs, "inputs", &ExecutionArguments::inputs);
  samples.add(arguments.loss_labels, state.loss_labels, "loss labels",
              &ExecutionArguments::loss_labels);
  samples.add(arguments.loss_label_weights, state.loss_label_weights, "loss label weights",
              &ExecutionArguments::loss_label_weights);
  if (samples.count() == 0) throw InvalidArgument(call + " expected samples but got none");
  if (!scores) return samples;
  for (const auto& [name, label] : state.loss_labels) {
    const auto is_given = [&name = name](const auto& given) { return given.first == name; };
    if (std::ranges::any_of(arguments.loss_labels, is_given)) continue;
    if (state.constants.contains(label)) continue;
    throw InvalidArgument(call + " expected labels for '" + name + "' but none were given");
  }
  return samples;
}

std::int64_t batch_size_of(const GraphState& state, std::int64_t asked, std::int64_t samples,
                           const std::string& call) {
  if (asked < 0) {
    throw InvalidArgument(call + " expected a batch size of at least 0 but got " +
                          std::to_string(asked));
  }
  const std::lock_guard lock(structure());
  const std::int64_t batch = asked != 0 ? asked : declared_batch(state);
  if (batch == 0) {
    throw InvalidArgument(call + " expected inputs with a common extent on axis 0 but got " +
                          declared_shapes(state));
  }
  return std::min(batch, samples);
}

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

}  // namespace

std::vector<Epoch> TrainingGraph::fit(const FitArguments& arguments) {
  if (arguments.epochs < 1) {
    throw InvalidArgument("[fit] expected at least 1 epoch but got " +
                          std::to_string(arguments.epochs));
  }
  for (const auto& [option, name] : kNotOfFit) {
    if (!has(arguments.options, option)) continue;
    throw InvalidArgument(
        std::string("[fit] expected options of SYNCHRONOUS and CHECK_NUMERICS but got ") + name);
  }
  FitProgress kept;
  FitProgress& progress = arguments.progress != nullptr ? *arguments.progress : kept;
  progress = {};
  const ReductionType reduction = loss_of(*state_, kFit).descriptor().reduction;
  Samples samples = samples_of(*state_, arguments, true, kFit);
  const std::int64_t batch = batch_size_of(*state_, arguments.batch_size, samples.count(), kFit);
  const std::int64_t rest = samples.count() % batch;
  if (rest != 0) state_->current_executor("fit")->check_batch(rest);
  const ShuffleOrder order = order_of(*state_, arguments, (samples.count() + batch - 1) / batch);
  if (order.seed) check_all_are_shuffled(*state_, arguments);
  while (static_cast<int>(progress.epochs.size()) < arguments.epochs) {
    Epoch epoch;
    epoch.number = progress.epoch = static_cast<int>(progress.epochs.size()) + 1;
    epoch.shuffle_seed = order.seed;
    progress.steps = 0;
    const Backend& device = state_->current_executor("fit")->backend();
    if (order.seed) samples.shuffle(*order.seed, order.before + epoch.number, device);
    const Clock::time_point start = Clock::now();
    StepsInFlight steps(device, arguments.options, reduction, progress.steps);
    try {
      for (std::int64_t first = 0; first < samples.count(); first += batch) {
        if (arguments.goes_on && !arguments.goes_on()) {
          steps.wait();
          return progress.epochs;
        }
        const std::int64_t rows = std::min(batch, samples.count() - first);
        steps.add(*state_->current_executor("fit"), samples.batch(first, rows));
      }
      steps.wait();
    } catch (Error& error) {
      steps.give_up();
      error.add(" in step " + std::to_string(progress.steps + 1) + " of epoch " +
                std::to_string(epoch.number));
      throw;
    } catch (...) {
      steps.give_up();
      throw;
    }
    epoch.loss = steps.loss();
    epoch.steps = progress.steps;
    epoch.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    progress.epochs.push_back(epoch);
    if (arguments.on_epoch && !arguments.on_epoch(epoch)) break;
  }
  return progress.epochs;
}

Evaluation TrainingGraph::evaluate(const FitArguments& arguments) {
  const LossDescriptor& descriptor = loss_of(*state_, kEvaluate).descriptor();
  Samples samples = samples_of(*state_, arguments, true, kEvaluate);
  const std::int64_t batch =
      batch_size_of(*state_, arguments.batch_size, samples.count(), kEvaluate);
  LossSum loss(descriptor.reduction);
  Accuracy accuracy;
  Scored scored;
  CallDetails details{.call = "evaluate", .keeps_bound = true};
  if (Accuracy::applies(descriptor.type)) details.scored = &scored;
  for (std::int64_t first = 0; first < samples.count(); first += batch) {
    if (arguments.goes_on && !arguments.goes_on()) break;
    const std::int64_t rows = std::min(batch, samples.count() - first);
    Samples::Batch& next = samples.batch(first, rows);
    ExecutionArguments& some = next.arguments;
    some.options = ExecutionOptions::kSynchronous | ExecutionOptions::kForwardForInference;
    details.samples = next.samples;
    const Execution done = state_->current_executor("evaluate")->submit(Run::step, some, details);
    loss.add(done.result(), rows);
    if (details.scored == nullptr) continue;
    accuracy.count(descriptor.type, scored.first, scored.second);
  }
  Evaluation result;
  result.loss = loss.value();
  if (accuracy.all > 0) {
    result.accuracy = static_cast<double>(accuracy.right) / static_cast<double>(accuracy.all);
  }
  return result;
}

TensorData ExecutableGraph::predict(const NamedData& inputs, std::int64_t batch_size,
                                    const std::function<void()>& before_batch) {
  FitArguments arguments;
  arguments.inputs = inputs;
  Samples samples = samples_of(*state_, arguments, false, kPredict);
  const std::int64_t batch = batch_size_of(*state_, batch_size, samples.count(), kPredict);
  TensorData all;
  std::size_t filled = 0;
  for (std::int64_t first = 0; first < samples.count(); first += batch) {
    if (before_batch) before_batch();
    const std::int64_t rows = std::min(batch, samples.count() - first);
    Samples::Batch& next = samples.batch(first, rows);
    next.arguments.options = ExecutionOptions::kSynchronous;
    const TensorData part =
        state_->current_executor("predict")->predict(next.arguments, next.samples);
    if (all.bytes == nullptr) {
      Shape shape = part.shape;
      shape[0] = samples.count();
      all = TensorData::copy_of(part.bytes, part.length, part.data_type, shape);
    }
    std::memcpy(static_cast<std::byte*>(all.bytes) + filled, part.bytes, part.length);
    filled += part.length;
  }
  return all;
}

}  // namespace traingraph
