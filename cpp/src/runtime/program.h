// `Program`, a graph compiled for one batch size, with its two schedules (separate phases, and the
// full step) and their addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "runtime/backend.h"

namespace traingraph {

// An order of execution, in node numbers, with the boundaries between phases.
struct Schedule {
  std::vector<ir::NodeId> order;
  // order[0, forward_end) is forward, [forward_end, gradient_end) gradient, the rest update. A full
  // step has updates anywhere and ignores the boundaries.
  std::size_t forward_end = 0;
  std::size_t gradient_end = 0;
};

// One schedule with its own places in the arena.
struct ProgramVariant {
  Schedule schedule;
  // By value: offset in the arena, or -1 for what lies elsewhere or is a view.
  std::vector<std::int64_t> value_offsets;
  // By node.
  std::vector<std::int64_t> workspace_offsets;
  std::size_t arena_bytes = 0;
  // Addresses by value, then workspaces by node.
  std::vector<std::byte*> pointers;
};

// `step_by_phases` is all three phases one after another. It and `forward_and_gradient` run the
// schedule of the single phases.
enum class Run : std::uint8_t {
  forward,
  gradient,
  update,
  step,
  forward_and_gradient,
  step_by_phases
};

// What a call reads that its own forward or gradient ops compute.
constexpr bool runs_forward(Run run) { return run != Run::gradient && run != Run::update; }
constexpr bool runs_gradient(Run run) { return run != Run::forward && run != Run::update; }
constexpr bool runs_update(Run run) {
  return run == Run::update || run == Run::step || run == Run::step_by_phases;
}

// By value: the value whose bytes it shares (a view's source, a write's parameter), or itself.
std::vector<ir::ValueId> alias_roots(const ir::Graph& graph);
// Whether a node is a sum over ranks that may go on beside the nodes behind it, which keeps its
// memory. Behind those of an update there is little to do.
bool may_go_on(const ir::Node& node);

// A forward value that is rematerialized in the gradient pass, and what that frees where most bytes
// are in use: nothing for one that only another one of them is made of.
struct Rematerialized {
  ir::ValueId value;
  std::size_t freed_bytes;
};

// Bytes that belong to a program.
struct ConstantValue {
  ir::ValueId value;
  std::shared_ptr<std::byte> bytes;
};

// Binding writes addresses; running only runs.
class Program {
 public:
  Program(ir::Graph graph, std::unique_ptr<Executable> executable);

  ir::Graph graph;
  std::unique_ptr<Executable> executable;
  ProgramVariant phase_schedule;
  ProgramVariant step_schedule;
  std::vector<ir::ValueId> roots;      // alias_roots the graph
  std::vector<ir::ValueId> gradients;  // readable after a separate gradient call
  std::vector<Rematerialized> rematerialized;
  std::vector<ConstantValue> constants;
  // Whether an op gives finite results for finite operands, which a checked run does not look at;
  // null: of no op is that known.
  bool (*stays_finite)(const ir::Node&) = nullptr;

  // What a run needs; a full step needs less than the phases apart, whose values live longer.
  std::size_t arena_bytes(Run run) const { return variant(run).arena_bytes; }
  // An arena that is large enough for the runs to come.
  void bind_arena(std::byte* base);
  const std::byte* arena() const { return arena_; }
  // Sets the address of a source value and of everything that shares its bytes.
  void bind(ir::ValueId source, std::byte* address);
  // The same for bytes that it keeps.
  void add_constant(ir::ValueId source, std::shared_ptr<std::byte> bytes);
  // Where a value is in the variant that runs it.
  const std::byte* address(Run run, ir::ValueId value) const;

  // Allocates nothing, looks nothing up. `seconds` (by node; may be null) receives times.
  void run(Run run, double* seconds) const;
  // The same, node by node, stopping at the first float that is not finite: among the arrays that
  // the run reads, else among the results of forward and gradient ops. Nothing is updated then.
  // Allocates at its first call only.
  std::optional<ir::ValueId> run_checked(Run run);

  // What a run schedules.
  struct Range {
    std::size_t first;
    std::size_t last;
  };
  Range range(Run run) const;
  const ProgramVariant& variant(Run run) const {
    return run == Run::step ? step_schedule : phase_schedule;
  }

 private:
  void list_checks();
  bool is_finite(const ProgramVariant& variant, ir::ValueId value) const;

  const std::byte* arena_ = nullptr;
  // Of each value that a checked run looks at, else 0.
  std::vector<std::size_t> checked_bytes_;
  std::vector<ir::ValueId> checked_inputs_[2];  // bound arrays by the phase that reads them first
  std::vector<std::vector<ir::ValueId>> aliases_;  // by root
};

}  // namespace traingraph
