// Checks that a gradient or update call follows the pass that it builds on, and counts the
// micro-batches of a step.
#include "graph/run/submission_order.h"

#include <algorithm>

#include <traingraph/errors.h>

#include "graph/data/data_binding.h"

namespace traingraph {
namespace {

int ranks_of(const GraphState& graph) { return graph.ranks == nullptr ? 1 : graph.ranks->size(); }
int rank_of(const GraphState& graph) { return graph.ranks == nullptr ? 0 : graph.ranks->rank(); }

}  // namespace

std::int64_t SubmissionOrder::batch_for(Run run, std::int64_t asked) const {
  const bool follows = !runs_forward(run);
  const CompiledPtr& before = passes_.before(run);
  if (follows && before == nullptr) {
    throw InvalidArgument(run == Run::gradient
                              ? "[execute_gradient] expected execute_forward before it"
                              : "[execute_optimizer_update] expected execute_gradient before it");
  }
  if (asked < 0) {
    throw InvalidArgument("[execute] expected a batch size of at least 0 but got " +
                          std::to_string(asked));
  }
  const std::int64_t declared = follows ? passes_.rows : declared_batch_;
  if (asked == 0 || asked == declared) return declared;
  if (follows) {
    throw InvalidArgument("[execute] expected batch size " + std::to_string(declared) +
                          " as in the call before but got " + std::to_string(asked));
  }
  if (declared == 0) {
    throw InvalidArgument(
        "[execute] expected no batch_size, because there is no common extent on axis 0 (" +
        declared_shapes(graph_) + "), but got " + std::to_string(asked));
  }
  return asked;
}

const char* SubmissionOrder::awaited_call() const {
  if (passes_.forward == nullptr || passes_.forward->gradients.empty()) return nullptr;
  if (passes_.gradient == nullptr) return "execute_gradient";
  const bool is_whole = graph_.micro_batches == 1 || position_.summed == graph_.micro_batches;
  const bool waits = graph_.optimizer != nullptr && is_whole && !updated_;
  return waits ? "execute_optimizer_update" : nullptr;
}

void SubmissionOrder::check_may_infer(const char* call) const {
  const char* const awaited = awaited_call();
  if (awaited == nullptr) return;
  throw InvalidArgument(std::string("[") + call + "] expected " + awaited +
                        " before it, because a pass in inference mode takes the memory that the "
                        "begun step's passes have left their values in; finish the step, or use "
                        "an inference graph over the same layers");
}

void SubmissionOrder::place(Job& job) const {
  if (!runs_forward(job.run) && passes_.before(job.run) != job.graph) {
    throw InvalidArgument(
        "[execute] the graph was compiled again since the call before (threads, clipping or a "
        "parameter's layout changed); start again with execute_forward");
  }
  job.after = position_;
  place_among_ranks(job);
  const bool trains = job.graph->mode == Mode::training;
  if (trains && runs_forward(job.run) && position_.summed == 0) ++job.after.step;
  if (has_micro_batches(job)) place_in_step(job);
  // Updates run between gradients in a step; a checked one must not have begun them.
  if (job.checked && job.run == Run::step) job.run = Run::step_by_phases;
}

void SubmissionOrder::place_among_ranks(Job& job) const {
  if (job.global.all == 0) {
    const std::int64_t rows = std::max<std::int64_t>(job.rows, 1);  // without an axis of samples
    job.global = {rows * rank_of(graph_), rows, rows * ranks_of(graph_)};
  }
  if (graph_.ranks != nullptr) job.rank = graph_.ranks->rank();
  job.first_row = job.global.before;
  job.draw = rank_of(graph_);
}

void SubmissionOrder::place_in_step(Job& job) const {
  const int count = graph_.micro_batches;
  const int summed = position_.summed;
  if (job.run == Run::update && summed != count) {
    throw InvalidArgument("[execute_optimizer_update] expected " + std::to_string(count) +
                          " micro-batches before it but got " + std::to_string(summed));
  }
  if (summed == count && runs_forward(job.run)) {
    throw InvalidArgument("[execute] expected execute_optimizer_update after " +
                          std::to_string(count) + " micro-batches");
  }
  job.starts_step = summed == 0;
  job.accumulates = summed > 0;
  job.draw = summed * ranks_of(graph_) + rank_of(graph_);
  job.first_row += position_.rows;
  if (job.run == Run::step)
    job.run = summed + 1 == count ? Run::step_by_phases : Run::forward_and_gradient;
  if (runs_gradient(job.run)) {
    ++job.after.summed;
    // Without an axis of samples one row stands for the whole: it counts none.
    if (job.global.rows == job.rows) job.after.rows += job.global.all;
  }
  // Without an optimizer a full sum is read and then begun again.
  const bool full = job.after.summed == count && graph_.optimizer == nullptr;
  if (runs_update(job.run) || full) job.after = {job.after.step};
}

void SubmissionOrder::count(const Job& job) {
  if (job.run == Run::forward) {
    passes_ = {job.graph->mode == Mode::training ? job.graph : nullptr, nullptr, job.rows};
    updated_ = false;
  } else if (job.run == Run::gradient) {
    passes_.gradient = job.graph;
  } else if (job.run == Run::update) {
    updated_ = true;
  } else {
    passes_.clear();
  }
  position_ = job.after;
}

void SubmissionOrder::drop(const CompiledPtr& program) {
  passes_.drop(program);
  give_up_full_sum();
}

void SubmissionOrder::drop_passes() {
  passes_.clear();
  give_up_full_sum();
}

void SubmissionOrder::give_up_full_sum() {
  const bool is_full = graph_.micro_batches > 1 && position_.summed == graph_.micro_batches;
  if (is_full && passes_.gradient == nullptr) position_ = {position_.step};
}

void SubmissionOrder::begin_again(std::uint64_t step) {
  if (position_.step != step) return;
  passes_.clear();
  position_ = {step};
}

StepPosition SubmissionOrder::resume(int summed, std::int64_t rows) {
  position_ = {position_.step + 1, summed, rows};
  return position_;
}

}  // namespace traingraph
