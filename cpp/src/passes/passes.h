// The passes: free functions from graph to graph, and the data of schedules and memory plans.
// pipeline.cpp fixes their order.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "runtime/backend.h"
#include "runtime/program.h"

namespace traingraph::passes {

// Where differentiation starts: a forward value and the gradient that flows into it.
struct Seed {
  ir::ValueId value;
  ir::ValueId gradient;
};

// Reverse differentiation restricted to paths from a seed to a wanted value. Emits gradient ops and
// returns one gradient per wanted value, kNone where nothing flows. Nothing flows through a value
// marked in `stopped` (indexed by value, shorter is fine), nor through a node before `first`: how
// many of those there are costs no time.
std::vector<ir::ValueId> autodiff(ir::Graph& graph, const std::vector<Seed>& seeds,
                                  const std::vector<ir::ValueId>& wanted,
                                  const std::vector<bool>& stopped, ir::NodeId first = 0);

// Lets later ops read the results of earlier ones that are equal. By value: the one to read
// instead. Leaves dead nodes.
std::vector<ir::ValueId> join_equal_nodes(ir::Graph& graph);

// Removes ops that reach neither a kept value nor a parameter write, and values nothing names.
// Sources stay. `values` maps old to new numbers (kNone: gone).
ir::Graph without_dead_nodes(const ir::Graph& graph, std::vector<ir::ValueId>& values);

// The graph in another precision (docs/architecture.md says which op computes in what). What the
// caller can read, `visible` beside what the graph keeps, stays as it is. Values keep their
// numbers; new ones follow. Expects gradient and update ops, and no fused ones.
ir::Graph with_precision(const ir::Graph& graph, Precision precision,
                         const std::vector<ir::ValueId>& visible);

// Writes ops that the backend has no kernels for in ops that it has, where there is a rule for them
// and all of it runs. Values keep their numbers; new ones follow. Leaves dead nodes.
ir::Graph with_compositions(const ir::Graph& graph, const Backend& backend);

// Moves elementwise ops before reshapes of what they may be joined with. Leaves dead reshapes.
ir::Graph with_reshapes_last(const ir::Graph& graph);

// Joins elementwise chains, and moves them into producers that say they take them as an epilogue.
ir::Graph fuse(const ir::Graph& graph, const Backend& backend);

// Gives every value a layout and inserts reorders where a kernel wants another one. Parameters
// whose layout is `fixed` (indexed by slot) keep it; others take what their forward kernel prefers
// if `choose_parameters` is set, else stay plain.
struct ParameterLayout {
  bool fixed = false;
  ir::Layout layout;
  int follows = ir::kNone;  // the slot of the parameter whose optimizer buffer this is
};
ir::Graph assign_layouts(const ir::Graph& graph, const Backend& backend,
                         const std::vector<ParameterLayout>& parameters, bool choose_parameters);

// A value that holds one number everywhere, or these.
struct Constant {
  ir::ValueId value;
  std::vector<double> numbers;
};
// Removes the ops that give such values, which become sources that the program holds.
std::vector<Constant> take_constants(ir::Graph& graph);
void write_constants(const std::vector<Constant>& constants, const Backend& backend,
                     Program& program);

// by_phases: phases one after another. Otherwise one step, in which an update runs as soon as its
// gradient is complete and its parameter is no longer read; what such a step leaves unread is not
// computed. Where sums over ranks go on beside other nodes, updates are behind all of them: so the
// gradient pass hides them, and a rank that ends leaves the parameters as they were.
Schedule schedule(const ir::Graph& graph, bool by_phases, bool sums_go_on);

// What the planner lays out: one buffer, needed from `first` to `last` (positions in the schedule,
// inclusive).
struct PlannedBuffer {
  std::size_t bytes = 0;
  std::size_t first = 0;
  std::size_t last = 0;
  // Buffers whose place this one may take because they end where it begins.
  std::vector<int> may_replace;
  // Filled by the planner:
  std::size_t offset = 0;
};
struct ArenaPlan {
  std::vector<PlannedBuffer> buffers;
  std::size_t bytes = 0;
};
inline constexpr std::size_t kAlignment = 64;
// What a buffer takes of the arena.
constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}
// Pure: live intervals in, offsets out.
ArenaPlan plan_arena(std::vector<PlannedBuffer> buffers);
// Independent of the planner: raises InternalError when two live buffers overlap.
void verify_plan(const ArenaPlan& plan);

// What kernels ask of the planner.
struct KernelRoom {
  std::vector<std::size_t> workspaces;     // by node
  std::size_t unaliased_result_bytes = 0;  // Executable::unaliased_result_bytes
  std::size_t unaliased_step_bytes = 0;    // Executable::unaliased_step_bytes; 0: places are shared
  bool sums_go_on = false;                 // Executable::sums_go_on
};
// From where to where in a schedule a value must exist, inclusive.
struct LiveInterval {
  std::size_t first = 0;
  std::size_t last = 0;
  bool used = false;
};
// One schedule and where its values lie. What has no bytes of its own in the arena has no buffer.
struct VariantPlan {
  Schedule schedule;
  std::vector<LiveInterval> liveness;  // by value, of those that others are views of
  ArenaPlan arena;
  std::vector<int> buffer_of;     // by value, or -1
  std::vector<int> workspace_of;  // by node, or -1
};
// `gradients` are readable after a separate gradient call.
VariantPlan plan_variant(const ir::Graph& graph, const KernelRoom& room, bool by_phases,
                         const std::vector<ir::ValueId>& gradients);

// Rematerializes values of the forward pass for the gradient pass: a copy of each one's
// producer stands right before the first op of the gradient phase that reads the value, and all of
// those read the copy. Where the backend can, a batch norm hands its coefficients to its copy.
// Values keep their numbers; new ones follow. `origins` says which of the graph's nodes each new
// node is, or is a copy of.
ir::Graph with_rematerialized(const ir::Graph& graph, const Backend& backend,
                              std::vector<Rematerialized> values, std::vector<ir::NodeId>& origins);

// Which values to rematerialize so that the arena of a full step, and with `apart` also that of
// phases apart, has at most `arena_limit` bytes. Takes what frees most bytes where most are in use,
// one after another, until that is so or nothing frees any there.
struct Rematerialization {
  std::vector<Rematerialized> values;
  std::size_t arena_bytes = 0;  // of the last try
  bool fits = false;
};
Rematerialization choose_rematerialized(const ir::Graph& graph, const Backend& backend,
                                        const KernelRoom& room,
                                        const std::vector<ir::ValueId>& gradients, bool apart,
                                        std::size_t arena_limit);

// What the pipeline needs beside the graph with its gradient and update ops.
struct PipelineRequest {
  const Backend* backend = nullptr;
  bool fuse = true;
  Precision precision = Precision::kFloat32;
  std::vector<ParameterLayout> parameters;  // by slot
  bool choose_parameters = false;
  bool has_memory_limit = false;
  // Readable after a separate gradient call, not after a full step.
  std::vector<ir::ValueId> gradients;
};
// Runs all passes and compiles. `values` maps the graph's numbers to the program's (kNone: gone).
std::unique_ptr<Program> compile(const ir::Graph& graph, const PipelineRequest& request,
                                 std::vector<ir::ValueId>& values);
// The choice for a compiled program, and the program compiled by it: its values keep their numbers.
Rematerialization choose_rematerialized(const Program& program, const Backend& backend, bool apart,
                                        std::size_t arena_limit);
std::unique_ptr<Program> with_rematerialized(const Program& program, const Backend& backend,
                                             const std::vector<Rematerialized>& values);

}  // namespace traingraph::passes
