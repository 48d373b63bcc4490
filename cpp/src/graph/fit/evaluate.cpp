// Batches without training: scoring and predicting.
#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include <traingraph/fit.h>

#include "distributed/beginning.h"
#include "graph/fit/evaluate.h"
#include "graph/fit/given_samples.h"
#include "graph/fit/loss_sum.h"
#include "graph/fit/metrics.h"
#include "graph/fit/rank_batches.h"
#include "graph/run/executor.h"

namespace traingraph {
namespace {

constexpr const char* kEvaluate = "[evaluate]";
constexpr const char* kPredict = "[predict]";

// Those asked for, and accuracy behind them where there is one.
std::vector<MetricPtr> all_metrics(const Scoring& scoring, const Loss& loss) {
  const LossType type = loss.descriptor().type;
  std::vector<MetricPtr> metrics = make_metrics(scoring.metrics, loss, scoring.call);
  if (has_accuracy(type)) metrics.push_back(make_accuracy(type));
  return metrics;
}

void check(const std::vector<MetricPtr>& metrics, const Scored& scored) {
  for (const MetricPtr& metric : metrics) {
    metric->check(scored.first.shape, scored.second.shape);
  }
}

void arrange(GraphState& state, Samples& samples, const Scoring& scoring) {
  if (!samples.is_sorted()) return;
  samples.arrange({{}, 0, scoring.batch}, state.current_executor("evaluate")->backend());
}

}  // namespace

void check_scoring(GraphState& state, Samples& samples, const Scoring& scoring, const char* call) {
  arrange(state, samples, scoring);
  const std::vector<MetricPtr> metrics = all_metrics(scoring, loss_of(state, scoring.call));
  Scored scored;
  CallDetails details{.call = call};
  if (!metrics.empty()) details.scored = &scored;
  for (std::int64_t first = 0; first < samples.count(); first += scoring.batch) {
    Samples::Batch& next =
        batch_of_rank(state, samples, first, std::min(scoring.batch, samples.count() - first));
    details.samples = next.samples;
    state.current_executor(call)->check_inference(next.arguments, details);
  }
  check(metrics, scored);
}

std::optional<Evaluation> evaluate_samples(GraphState& state, Samples& samples,
                                           const Scoring& scoring) {
  const Loss& layer = loss_of(state, scoring.call);
  const LossDescriptor& descriptor = layer.descriptor();
  LossSum loss(descriptor.reduction);
  const bool is_classifier = has_accuracy(descriptor.type);
  const std::vector<MetricPtr> metrics = all_metrics(scoring, layer);
  Scored scored;
  CallDetails details{.call = "evaluate", .keeps_bound = true};
  if (!metrics.empty()) details.scored = &scored;
  arrange(state, samples, scoring);
  bool is_whole = true;
  for (std::int64_t first = 0; is_whole && first < samples.count(); first += scoring.batch) {
    is_whole = !scoring.goes_on || scoring.goes_on();
    if (!is_whole) break;
    const std::int64_t rows = std::min(scoring.batch, samples.count() - first);
    Samples::Batch& next = batch_of_rank(state, samples, first, rows);
    const bool counts = !next.global || next.global->rows != 0;
    if (!counts && first != 0) continue;
    ExecutionArguments& some = next.arguments;
    some.options = ExecutionOptions::kSynchronous | ExecutionOptions::kForwardForInference;
    details.samples = next.samples;
    details.rows = next.chosen;
    const Execution done = state.current_executor("evaluate")->submit(Run::step, some, details);
    if (first == 0) check(metrics, scored);
    if (!counts) continue;
    loss.add(done.result(), some.batch_size);
    for (const MetricPtr& metric : metrics) metric->count(scored.first, scored.second);
  }
  is_whole = is_agreed(state, is_whole);
  if (!is_whole && scoring.all_or_none) return std::nullopt;
  if (state.ranks != nullptr) {
    std::array<double, 2> numbers{loss.sum(), static_cast<double>(loss.count())};
    state.ranks->add(numbers);
    loss = loss.none();
    loss.add(numbers[0], static_cast<std::int64_t>(numbers[1]));
    for (const MetricPtr& metric : metrics) add_over_ranks(*metric, *state.ranks);
  }
  Evaluation result;
  result.loss = loss.value();
  for (std::size_t k = 0; k < scoring.metrics.size(); ++k) {
    result.metrics.emplace_back(scoring.metrics[k], metrics[k]->value());
  }
  if (!is_classifier) return result;
  if (metrics.back()->has_counted()) {
    result.accuracy = metrics.back()->value().numbers.front();
  }
  return result;
}

Evaluation TrainingGraph::evaluate(const FitArguments& arguments) {
  std::optional<Samples> samples;
  Scoring scoring{kEvaluate, 0, arguments.metrics, arguments.goes_on, false};
  if (state_->ranks != nullptr) state_->ranks->wait_for_steps();
  distributed::begin_together(state_->ranks.get(), "evaluate", [&] {
    loss_of(*state_, kEvaluate);
    const SampleData data = data_of(arguments);
    samples = samples_of(*state_, data, true, kEvaluate);
    scoring.batch = batch_size_of(*state_, arguments.batch_size, samples->count(), kEvaluate,
                                  count_of_ranks(*state_));
    check_all_are_sorted(*state_, data, *samples, scoring.batch);
    // One rank alone raises it at the batch.
    if (state_->ranks != nullptr) check_scoring(*state_, *samples, scoring, "evaluate");
    return std::to_string(samples->count()) + " samples in batches of " +
           std::to_string(scoring.batch) + "\n" + text_of_metrics(arguments.metrics);
  });
  distributed::RankGuard guard(state_->ranks.get());
  std::optional<Evaluation> found = evaluate_samples(*state_, *samples, scoring);
  guard.done();
  return *std::move(found);
}

TensorData ExecutableGraph::predict(const NamedData& inputs, std::int64_t batch_size,
                                    const std::function<void()>& before_batch) {
  Samples samples = samples_of(*state_, SampleData{.inputs = inputs}, false, kPredict);
  const std::int64_t batch = batch_size_of(*state_, batch_size, samples.count(), kPredict);
  if (samples.is_sorted()) {
    samples.check_lengths(batch, false);
    samples.arrange({{}, 0, batch}, state_->current_executor("predict")->backend());
  }
  TensorData all;
  for (std::int64_t first = 0; first < samples.count(); first += batch) {
    if (before_batch) before_batch();
    const std::int64_t rows = std::min(batch, samples.count() - first);
    Samples::Batch& next = samples.batch(first, rows);
    next.arguments.options = ExecutionOptions::kSynchronous;
    const TensorData part =
        state_->current_executor("predict")->predict(next.arguments, next.samples, next.chosen);
    if (all.bytes == nullptr) {
      Shape shape = part.shape;
      shape[0] = samples.count();
      all = TensorData::copy_of(part.bytes, part.length, part.data_type, shape);
    }
    const std::size_t bytes = part.length / static_cast<std::size_t>(rows);
    const auto to = [&](std::int64_t sample) {
      return static_cast<std::byte*>(all.bytes) + static_cast<std::size_t>(sample) * bytes;
    };
    if (!samples.is_sorted()) {
      std::memcpy(to(first), part.bytes, part.length);
      continue;
    }
    for (std::int64_t k = 0; k < rows; ++k) {
      const auto* const from = static_cast<const std::byte*>(part.bytes);
      std::memcpy(to(samples.at(first + k)), from + static_cast<std::size_t>(k) * bytes, bytes);
    }
  }
  return all;
}

}  // namespace traingraph
