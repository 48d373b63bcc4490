// A program together with the tensors that its values stand for, and `compile`, which makes it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <traingraph/memory_plan.h>

#include "graph/lowering/lowering.h"
#include "graph/state/link_set.h"
#include "runtime/memory/parameter_store.h"
#include "runtime/program.h"

namespace traingraph {

struct CompiledGraph {
  std::int64_t batch = 0;
  bool takes_fewer = false;  // whether calls may bring fewer rows
  bool counts_rows = false;  // whether it is another program for that
  Mode mode = Mode::training;
  int threads = 0;
  bool clips = false;             // whether gradients are clipped
  bool fits_apart = true;         // whether phases run apart within the memory limit, too
  std::size_t library_bytes = 0;  // the process's growth while kernels were made
  std::unique_ptr<Program> program;
  std::vector<BoundSlot> bound;
  std::vector<LoweredGraph::Slot> slots;
  std::vector<ir::ValueId> slot_values;      // by parameter slot
  std::vector<std::uint64_t> slot_versions;  // of the stores this was compiled against
  std::vector<ParameterState*> stores;       // by slot; null for optimizer buffers
  // parameter_moves() when they were last seen to lie as they did.
  mutable std::atomic<std::uint64_t> moves_seen{~std::uint64_t{0}};
  // Parameters and optimizer buffers as they lay then: where another graph moves them amid a run,
  // the run's last reads and writes still have their memory.
  std::vector<std::shared_ptr<std::byte>> held;
  std::map<const Tensor*, ir::ValueId> tensors;  // kNone where fused away
  std::map<const Tensor*, ir::ValueId> gradients;
  // What linked graphs are sent: forward values, and gradients of what they have sent.
  struct Sent {
    Exchange* to;
    const Tensor* tensor;
    ir::ValueId value;  // kNone: no gradient flows, which is zeros
    bool gradient;
    Shape shape;
    bool by(Run run) const { return gradient ? runs_gradient(run) : runs_forward(run); }
  };
  std::vector<Sent> sent;
  std::vector<IndexCheck> index_checks;
  ir::ValueId outside = ir::kNone;  // what they have found; kNone: no checks
  ir::ValueId result = ir::kNone;
  bool result_has_batch = false;  // on axis 0
  TensorPtr result_tensor;
  TensorPtr prediction;  // what the loss compares; null without one
  TensorPtr label;
  std::vector<std::size_t> step_inputs;  // places of the StepInputs that it reads

  // Whether compiling now would give the same: threads, clipping, what parameters are kept in.
  bool is_current(const GraphState& state) const;
  // Whether parameters lie where, and as, this was compiled for. Call while holding the stream.
  bool lies_where_parameters_do() const;
  // What here stands for a value of another program over the same graph, batch and mode.
  ir::ValueId counterpart(const CompiledGraph& other, ir::ValueId value) const;
  // The type of a value in a run over so many rows.
  ir::Type type(ir::ValueId value, std::int64_t rows) const;
  // Whether a step changes anything: parameters, or running statistics.
  bool changes_parameters() const;
  // Adds an entry for each constant.
  void list_constants(MemoryPlan& plan) const;
  // Adds an entry for each parameter, constant, bound array, value and workspace.
  void list(MemoryPlan& plan) const;
};

using CompiledPtr = std::shared_ptr<CompiledGraph>;

// The last passes of each kind.
struct Passes {
  CompiledPtr forward;
  CompiledPtr gradient;
  std::int64_t rows = 0;  // of the forward pass and what goes on from it

  // What a gradient or update pass goes on from.
  const CompiledPtr& before(Run run) const { return run == Run::gradient ? forward : gradient; }
  void clear() { forward = gradient = nullptr; }
  // Of a program that is no longer used.
  void drop(const CompiledPtr& program);
};

// Whether programs of this graph clip gradients.
bool clips_gradients(const GraphState& state);

// Compiles a graph for one batch size and mode; places its parameters and settles their layouts.
// `fewer`: for up to so many rows; null where rows meet in it (LoweredGraph::meeting).
// Call while holding `stream`, which becomes one with those of parameters and linked graphs.
CompiledPtr compile(const GraphState& state, const Backend& backend,
                    const std::shared_ptr<Stream>& stream, std::int64_t batch, Mode mode,
                    bool fewer = false);

// Host memory for a dense array of this type, which is to be overwritten.
TensorData host_array(ir::Type type);
// A value that a run over so many rows has left.
struct LeftValue {
  const CompiledGraph& graph;
  Run run;
  ir::ValueId value;
  std::int64_t rows;
  bool is_whole() const { return rows == graph.batch; }
};
// Its copy on the host; into memory of host_array(), which has been there before (zeros where
// nothing is computed); or into memory of the backend.
TensorData copy_out(const Backend& backend, const LeftValue& left);
void copy_out(const Backend& backend, const LeftValue& left, const TensorData& to);
void copy_within(const Backend& backend, const LeftValue& left, std::byte* to);

}  // namespace traingraph
