// Sets the numbers of a step that programs read, and brings a device what has changed.
#include "graph/run/step_numbers.h"

#include "graph/run/state_numbers.h"

namespace traingraph {
namespace {

std::size_t place_of(ir::StepInput input) { return static_cast<std::size_t>(input); }

// The count itself in a step's first micro-batch. The odd factor keeps those of other micro-batches
// far away from every count of a step that comes.
std::int64_t own_count(std::int64_t count, int draw) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(count) +
                                   static_cast<std::uint64_t>(draw) * 0x9e3779b97f4a7c15ull);
}

}  // namespace

void StepNumbers::bind(CompiledGraph& graph) {
  const std::vector<ir::Value>& values = graph.program->graph.values;
  graph.step_inputs.clear();
  for (std::size_t v = 0; v < values.size(); ++v) {
    if (values[v].source != ir::Source::step) continue;
    const auto place = static_cast<std::size_t>(values[v].slot);
    graph.program->bind(static_cast<ir::ValueId>(v), scalars_.address(place));
    graph.step_inputs.push_back(place);
  }
}

void StepNumbers::write(const Job& job) {
  const ir::Graph& ops = job.graph->program->graph;
  const bool wide = ops.type(job.graph->result).data_type == DataType::kFloat64;
  const auto set = [&](ir::StepInput input, double number) {
    scalars_.set(place_of(input), number, wide);
  };
  if (job.optimizer != nullptr) {
    set(ir::StepInput::learning_rate, job.learning_rate);
    set(ir::StepInput::corrected_learning_rate, job.corrected_learning_rate);
  }
  if (runs_forward(job.run) && job.graph->mode == Mode::training) {
    // Begins again behind the most that a state may say.
    if (job.starts_step && ++*forward_count_ > kMostForwardCount) *forward_count_ = 0;
    const std::int64_t count = *forward_count_;
    scalars_.set_count(place_of(ir::StepInput::counter), count);
    scalars_.set_count(place_of(ir::StepInput::own_counter), own_count(count, job.draw));
    scalars_.set_count(place_of(ir::StepInput::first_row), job.first_row);
  }
  if (job.graph->counts_rows) {
    scalars_.set_count(place_of(ir::StepInput::rows), job.rows);
    set(ir::StepInput::row_share, 1 / static_cast<double>(job.rows));
  }
  if (job.rank != ir::kNone) {
    scalars_.set_count(place_of(ir::StepInput::rank), job.rank);
    scalars_.set_count(place_of(ir::StepInput::rank_rows), job.global.rows);
    scalars_.set_count(place_of(ir::StepInput::all_rows), job.global.all);
    set(ir::StepInput::mean_share,
        static_cast<double>(job.global.rows) / static_cast<double>(job.global.all));
    set(ir::StepInput::sum_share, job.global.rows == 0 ? 0 : 1);
  }
  if (runs_gradient(job.run)) set(ir::StepInput::accumulates, job.accumulates ? 1 : 0);
  scalars_.send(job.graph->step_inputs, *job.graph->program->executable);
}

void StepNumbers::take_back(const Job& job) {
  const bool counts = runs_forward(job.run) && job.graph->mode == Mode::training && job.starts_step;
  if (counts && *forward_count_ > 0) --*forward_count_;
}

void StepNumbers::list(MemoryPlan& plan) const {
  if (scalars_.device_bytes() == 0) return;
  plan.entries.push_back({"numbers of a step", "staging", scalars_.device_bytes()});
  plan.staging_bytes += scalars_.device_bytes();
}

}  // namespace traingraph
