#include "graph/submission_order.h"

#include <traingraph/errors.h>

namespace traingraph {

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
  const std::int64_t declared = follows ? before->batch : declared_batch_;
  if (asked == 0 || asked == declared) return declared;
  if (follows) {
    throw InvalidArgument("[execute] expected batch size " + std::to_string(declared) +
                          " as in the call before but got " + std::to_string(asked));
  }
  if (declared == 0) {
    throw InvalidArgument(
        "[execute] expected batch size 0, because the inputs have no common "
        "extent on axis 0, but got " +
        std::to_string(asked));
  }
  return asked;
}

void SubmissionOrder::place(Job& job) const {
  if (!runs_forward(job.run) && passes_.before(job.run) != job.graph) {
    throw InvalidArgument(
        "[execute] the graph was compiled again since the call before (threads, clipping or a "
        "parameter's layout changed); start again with execute_forward");
  }
  if (has_micro_batches(job)) place_in_step(job);
  // Updates run between gradients in a step; a checked one must not have begun them.
  if (job.checked && job.run == Run::step) job.run = Run::separate_step;
}

void SubmissionOrder::place_in_step(Job& job) const {
  const int count = graph_.micro_batches;
  if (job.run == Run::update) {
    if (summed_ == count) return;
    throw InvalidArgument("[execute_optimizer_update] expected " + std::to_string(count) +
                          " micro-batches before it but got " + std::to_string(summed_));
  }
  if (summed_ == count && job.run != Run::gradient) {
    throw InvalidArgument("[execute] expected execute_optimizer_update after " +
                          std::to_string(count) + " micro-batches");
  }
  job.starts_step = summed_ == 0;
  job.accumulates = summed_ > 0;
  job.first_row = summed_rows_;
  if (job.run == Run::step) job.run = summed_ + 1 == count ? Run::separate_step : Run::passes;
}

void SubmissionOrder::count(const Job& job) {
  if (job.run == Run::forward) {
    passes_ = {job.graph->mode == Mode::training ? job.graph : nullptr, nullptr};
  } else if (job.run == Run::gradient) {
    passes_.gradient = job.graph;
  } else if (job.run != Run::update) {
    passes_.clear();
  }
  if (!has_micro_batches(job)) return;
  if (runs_gradient(job.run)) {
    ++summed_;
    summed_rows_ += job.graph->batch;
  }
  // Without an optimizer a full sum is read and then begun again.
  const bool full = summed_ == graph_.micro_batches && graph_.optimizer == nullptr;
  if (runs_update(job.run) || full) {
    summed_ = 0;
    summed_rows_ = 0;
  }
}

void SubmissionOrder::begin_again() {
  passes_.clear();
  summed_ = 0;
  summed_rows_ = 0;
}

}  // namespace traingraph
