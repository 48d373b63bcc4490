// Batches in a loop: training, scoring, predicting.
#include <traingraph/fit.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include <traingraph/errors.h>
#include <traingraph/loss.h>

#include "graph/accuracy.h"
#include "graph/data_binding.h"
#include "graph/executor.h"
#include "graph/samples.h"

namespace traingraph {
namespace {

// The loss that the graph's result comes from.
const Loss& loss_of(const GraphState& state) {
  const auto* given = dynamic_cast<const Loss*>(state.loss_layer.get());
  if (given != nullptr) return *given;
  const std::lock_guard lock(structure());
  const Loss* last = nullptr;
  for (const NodeRecord& node : state.ordered_nodes()) {
    if (const auto* loss = dynamic_cast<const Loss*>(node.layer.get())) last = loss;
  }
  if (last == nullptr) throw InvalidArgument("[fit] expected a graph with a loss layer");
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

Samples samples_of(const GraphState& state, const FitArguments& arguments) {
  Samples samples;
  const std::lock_guard lock(structure());
  samples.add(arguments.inputs, state.inputs, "inputs", &ExecutionArguments::inputs);
  samples.add(arguments.loss_labels, state.loss_labels, "loss labels",
              &ExecutionArguments::loss_labels);
  samples.add(arguments.loss_label_weights, state.loss_label_weights, "loss label weights",
              &ExecutionArguments::loss_label_weights);
  if (samples.count() == 0) throw InvalidArgument("[fit] expected samples but got none");
  return samples;
}

std::int64_t batch_size_of(const GraphState& state, std::int64_t asked, std::int64_t samples) {
  if (asked < 0) {
    throw InvalidArgument("[fit] expected a batch size of at least 0 but got " +
                          std::to_string(asked));
  }
  const std::lock_guard lock(structure());
  const std::int64_t batch = asked != 0 ? asked : declared_batch(state);
  if (batch == 0) {
    throw InvalidArgument("[fit] expected inputs with a common extent on axis 0 but got " +
                          declared_shapes(state));
  }
  return std::min(batch, samples);
}

}  // namespace

std::vector<Epoch> TrainingGraph::fit(const FitArguments& arguments) {
  if (arguments.epochs < 1) {
    throw InvalidArgument("[fit] expected at least 1 epoch but got " +
                          std::to_string(arguments.epochs));
  }
  const ReductionType reduction = loss_of(*state_).descriptor().reduction;
  Samples samples = samples_of(*state_, arguments);
  const std::int64_t batch = batch_size_of(*state_, arguments.batch_size, samples.count());
  const std::int64_t rest = samples.count() % batch;
  if (rest != 0) state_->current_executor("fit")->check_batch(rest);
  using Clock = std::chrono::steady_clock;
  std::vector<Epoch> epochs;
  while (static_cast<int>(epochs.size()) < arguments.epochs) {
    Epoch epoch;
    epoch.number = static_cast<int>(epochs.size()) + 1;
    if (arguments.shuffle_seed) samples.shuffle(*arguments.shuffle_seed, epoch.number);
    const Clock::time_point start = Clock::now();
    LossSum loss(reduction);
    for (std::int64_t first = 0; first < samples.count(); first += batch) {
      if (arguments.goes_on && !arguments.goes_on()) return epochs;
      const std::int64_t rows = std::min(batch, samples.count() - first);
      loss.add(execute(samples.batch(first, rows)).result(), rows);
      ++epoch.steps;
    }
    epoch.loss = loss.value();
    epoch.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    epochs.push_back(epoch);
    if (arguments.on_epoch && !arguments.on_epoch(epoch)) break;
  }
  return epochs;
}

Evaluation TrainingGraph::evaluate(const FitArguments& arguments) {
  const LossDescriptor& descriptor = loss_of(*state_).descriptor();
  Samples samples = samples_of(*state_, arguments);
  const std::int64_t batch = batch_size_of(*state_, arguments.batch_size, samples.count());
  LossSum loss(descriptor.reduction);
  Accuracy accuracy;
  for (std::int64_t first = 0; first < samples.count(); first += batch) {
    const std::int64_t rows = std::min(batch, samples.count() - first);
    ExecutionArguments some = samples.batch(first, rows);
    some.options = some.options | ExecutionOptions::kForwardForInference;
    loss.add(execute(some).result(), rows);
    if (!Accuracy::applies(descriptor.type)) continue;
    const auto [prediction, labels] = state_->compiled_executor("evaluate")->scored();
    accuracy.count(descriptor.type, prediction, labels);
  }
  Evaluation result;
  result.loss = loss.value();
  if (accuracy.all > 0) {
    result.accuracy = static_cast<double>(accuracy.right) / static_cast<double>(accuracy.all);
  }
  return result;
}

TensorData ExecutableGraph::predict(const NamedData& inputs, std::int64_t batch_size) {
  FitArguments arguments;
  arguments.inputs = inputs;
  Samples samples = samples_of(*state_, arguments);
  const std::int64_t batch = batch_size_of(*state_, batch_size, samples.count());
  TensorData all;
  std::size_t filled = 0;
  for (std::int64_t first = 0; first < samples.count(); first += batch) {
    const std::int64_t rows = std::min(batch, samples.count() - first);
    const TensorData part =
        state_->current_executor("predict")->predict(samples.batch(first, rows));
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
