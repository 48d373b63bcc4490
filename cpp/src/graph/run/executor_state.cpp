// The executor's half of a checkpoint: the step that has begun.
#include <algorithm>

#include "graph/run/executor.h"

namespace traingraph {

// The sums have their places since the program of this call was made. What was frozen or thawed
// since, or declared, drops them as it does in a graph that was not saved.
void Executor::resume_step(const CompiledGraph& graph) {
  const BegunStepPtr begun = graph_.resumed->take();
  if (begun == nullptr) return;
  const auto adds = [](const LoweredGraph::Slot& slot) { return slot.accumulates; };
  const bool same = std::all_of(begun->sums.begin(), begun->sums.end(), [&](const auto& sum) {
    return std::any_of(graph.slots.begin(), graph.slots.end(),
                       [&](const auto& slot) { return adds(slot) && slot.tensor == sum.first; });
  });
  const auto count = std::count_if(graph.slots.begin(), graph.slots.end(), adds);
  if (!same || static_cast<std::size_t>(count) != begun->sums.size()) return;
  if (begun->taken_at.value_or(built_for_) != built_for_) return;
  stream_->run([&] {
    const std::lock_guard lock(mutex_);
    programs_.write_sums(begun->sums);
    readable_results_.resume(submitted_.resume(begun->summed, begun->rows));
  });
}

BegunStepPtr Executor::begun_step(std::uint64_t changes) const {
  const std::lock_guard lock(mutex_);
  if (const BegunStepPtr loaded = graph_.resumed->get()) {
    return loaded->taken_at.value_or(changes) == changes ? loaded : nullptr;
  }
  const StepPosition& at = readable_results_.reached();
  // Compiling again drops the sum, and a full one is what a pass has left.
  if (at.summed == 0 || at.summed >= graph_.micro_batches || built_for_ != changes) return nullptr;
  return std::make_shared<const BegunStep>(
      BegunStep{graph_.micro_batches, at.summed, at.rows, programs_.copy_sums()});
}

bool Executor::give_up_step(bool resumes) {
  const std::uint64_t step = readable_results_.reached().step;
  const std::lock_guard lock(mutex_);
  if (resumes && submitted_.position().step != step) return false;
  readable_results_.give_up(step);
  submitted_.begin_again(step);
  graph_.resumed->set(nullptr);
  return true;
}

}  // namespace traingraph
