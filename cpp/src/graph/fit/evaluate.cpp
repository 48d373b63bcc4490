// Batches without training: scoring and predicting.
#include <cmath>
#include <cstring>
#include <memory>

#include <traingraph/fit.h>

#include "graph/fit/given_samples.h"
#include "graph/fit/loss_sum.h"
#include "graph/fit/metrics.h"
#include "graph/run/executor.h"

namespace traingraph {
namespace {

constexpr const char* kEvaluate = "[evaluate]";
constexpr const char* kPredict = "[predict]";

}  // namespace

Evaluation TrainingGraph::evaluate(const FitArguments& arguments) {
  const LossDescriptor& descriptor = loss_of(*state_, kEvaluate).descriptor();
  Samples samples = samples_of(*state_, arguments, true, kEvaluate);
  const std::int64_t batch =
      batch_size_of(*state_, arguments.batch_size, samples.count(), kEvaluate);
  LossSum loss(descriptor.reduction);
  std::vector<std::unique_ptr<Metric>> metrics;
  for (const std::string& name : arguments.metrics) {
    metrics.push_back(make_metric(name, descriptor.type, kEvaluate));
  }
  const bool is_classifier = has_accuracy(descriptor.type);
  if (is_classifier) metrics.push_back(make_metric("accuracy", descriptor.type, kEvaluate));
  Scored scored;
  CallDetails details{.call = "evaluate", .keeps_bound = true};
  if (!metrics.empty()) details.scored = &scored;
  for (std::int64_t first = 0; first < samples.count(); first += batch) {
    if (arguments.goes_on && !arguments.goes_on()) break;
    const std::int64_t rows = std::min(batch, samples.count() - first);
    Samples::Batch& next = samples.batch(first, rows);
    ExecutionArguments& some = next.arguments;
    some.options = ExecutionOptions::kSynchronous | ExecutionOptions::kForwardForInference;
    details.samples = next.samples;
    const Execution done = state_->current_executor("evaluate")->submit(Run::step, some, details);
    loss.add(done.result(), rows);
    for (const auto& metric : metrics) metric->count(scored.first, scored.second);
  }
  Evaluation result;
  result.loss = loss.value();
  for (std::size_t k = 0; k < arguments.metrics.size(); ++k) {
    result.metrics.emplace_back(arguments.metrics[k], metrics[k]->value());
  }
  if (!is_classifier) return result;
  const double accuracy = metrics.back()->value().numbers.front();
  if (!std::isnan(accuracy)) result.accuracy = accuracy;  // with rows that count
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
