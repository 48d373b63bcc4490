#include "graph/step_numbers.h"

#include <algorithm>
#include <cstring>

#include "graph/state_numbers.h"

namespace traingraph {

void StepNumbers::bind(CompiledGraph& graph) {
  const std::vector<ir::Value>& values = graph.program->graph.values;
  std::byte* first = block();
  graph.step_inputs.clear();
  for (std::size_t v = 0; v < values.size(); ++v) {
    if (values[v].source != ir::Source::step) continue;
    graph.program->bind(static_cast<ir::ValueId>(v), first + std::ptrdiff_t{8} * values[v].slot);
    graph.step_inputs.push_back(static_cast<ir::StepInput>(values[v].slot));
  }
}

std::byte* StepNumbers::block() {
  if (backend_.uses_host_memory()) return numbers_;
  if (block_ == nullptr) block_ = backend_.allocate(kBytes);
  return block_.get();
}

void StepNumbers::write(const Job& job) {
  const ir::Graph& ops = job.graph->program->graph;
  const bool wide = ops.type(job.graph->result).data_type == DataType::kFloat64;
  auto set_number = [&](ir::StepInput input, double number) {
    std::byte* at = numbers_ + static_cast<std::size_t>(input) * 8;
    const auto narrow = static_cast<float>(number);
    std::memcpy(at, wide ? static_cast<const void*>(&number) : &narrow, wide ? 8 : 4);
  };
  auto set_count = [&](ir::StepInput input, std::int64_t count) {
    std::memcpy(numbers_ + static_cast<std::size_t>(input) * 8, &count, 8);
  };
  if (job.optimizer != nullptr) {
    set_number(ir::StepInput::learning_rate, job.learning_rate);
    set_number(ir::StepInput::corrected_learning_rate, job.corrected_learning_rate);
  }
  if (runs_forward(job.run) && job.graph->mode == Mode::training) {
    // Begins again behind the most that a state may say.
    if (job.starts_step && ++*forward_count_ > kMostForwardCount) *forward_count_ = 0;
    set_count(ir::StepInput::counter, *forward_count_);
    set_count(ir::StepInput::first_row, job.first_row);
  }
  if (runs_gradient(job.run)) set_number(ir::StepInput::accumulates, job.accumulates ? 1 : 0);
  send(*job.graph);
}

void StepNumbers::send(const CompiledGraph& graph) {
  if (backend_.uses_host_memory()) return;
  const auto& inputs = graph.step_inputs;
  const bool same = std::all_of(inputs.begin(), inputs.end(), [&](ir::StepInput input) {
    const auto at = static_cast<std::size_t>(input) * 8;
    return std::memcmp(numbers_ + at, sent_ + at, 8) == 0;
  });
  if (sent_is_there_.exchange(true) && same) return;
  if (!graph.program->executable->carry_in(block_.get(), numbers_, kBytes)) {
    backend_.write(block_.get(), numbers_, kBytes);
  }
  std::memcpy(sent_, numbers_, kBytes);
}

void StepNumbers::list(MemoryPlan& plan) const {
  if (block_ == nullptr) return;
  plan.entries.push_back({"numbers of a step", "staging", kBytes});
  plan.staging_bytes += kBytes;
}

}  // namespace traingraph
