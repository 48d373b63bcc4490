// The programs of one graph, most recently used first, with the arena and the sums of gradients
// that they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/arena.h"
#include "engine/lru_programs.h"
#include "graph/data/device_staging.h"
#include "graph/program/compiled_graph.h"

namespace traingraph {

// Guarded by the executor's mutex. The arena and what programs point to change only while the
// stream is held as well, so that its holder may look at both.
class ProgramCache {
 public:
  ProgramCache(const GraphState& graph, const Backend& backend)
      : graph_(graph), backend_(backend), arena_(backend) {}

  // Null where there is none, or one that would now be compiled otherwise.
  CompiledPtr find(std::int64_t batch, Mode mode, bool fewer = false);
  // The one of this mode that has the largest batch; null where there is none.
  const CompiledGraph* largest(Mode mode) const;
  // Puts it first; returns the one whose place it takes, or null.
  CompiledPtr add(const CompiledPtr& graph);

  // Points a new program to its parameters, their optimizer buffers and sums of gradients.
  void bind_parameters(CompiledGraph& graph);
  // Copies of the sums of gradients, and back. Call while holding the stream.
  std::vector<std::pair<TensorPtr, TensorData>> copy_sums() const;
  void write_sums(const std::vector<std::pair<TensorPtr, TensorData>>& sums);
  // Whether the arena grows for a run, and with that loses what passes have left there.
  bool outgrows(const CompiledGraph& graph, Run run) const;
  // Whether the program has the arena already, and room there for the run. Call while holding the
  // stream, with or without the mutex.
  bool has_room(const CompiledGraph& graph, Run run) const;
  // Points the program to the arena, after that has grown for the run. Without memory for it the
  // programs stay as they were, or are dropped where the arena before is gone, too.
  void make_room(CompiledGraph& graph, Run run);
  const std::shared_ptr<std::byte>& arena() const { return arena_.memory(); }
  std::size_t arena_bytes() const { return arena_needed_; }

  // Whether a run of this program touches these bytes on the device as something else, too.
  bool touches(const CompiledGraph& graph, const BoundArray& array) const;
  // Whether axis 0 of what is bound to this tensor is the batch; raises where nothing is.
  bool has_batch(const Tensor& tensor) const;
  // Raises unless the integers that are bound to this tensor are what each program expects.
  void check_ranges(const std::string& name, const Tensor& tensor, const ir::Type& type,
                    const TensorData& data) const;
  // Of all programs, each once.
  std::vector<TensorPtr> parameters() const;
  // Adds what this program and all of them have, and the constants of the others, with an arena
  // that has room for the run. `made`: for a memory limit, which is for these programs, that are
  // about to be kept, and the one for fewer rows beside this one.
  void list(const CompiledGraph& graph, Run run, MemoryPlan& plan,
            const std::vector<CompiledPtr>* made = nullptr) const;

 private:
  // A sum of gradients over micro-batches, in its parameter's layout.
  struct GradientSum {
    TensorPtr tensor;
    ir::Layout layout;
    std::shared_ptr<std::byte> buffer;
  };

  std::byte* sum_of(const TensorPtr& tensor);

  const GraphState& graph_;
  const Backend& backend_;
  LruPrograms<CompiledGraph> programs_{16};
  std::size_t library_bytes_ = 0;  // the process's growth while kernels were made
  Arena arena_;
  std::size_t arena_needed_ = 0;  // by the largest run
  std::map<const Tensor*, GradientSum> sums_;
};

}  // namespace traingraph
