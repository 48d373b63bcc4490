#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "graph/data/device_staging.h"
#include "graph/program/compiled_graph.h"

namespace traingraph {

// One graph's side of the transfers between linked graphs: forward values one way, gradients the
// other. What was announced is guarded by the set's mutex; the bytes belong to whoever holds the
// stream, which the set shares.
class Exchanges {
 public:
  Exchanges(const GraphState& graph, const Backend& backend)
      : graph_(graph), backend_(backend), links_(graph.links) {}

  // Memory for what this program sends. Call while holding the stream.
  void place(CompiledGraph& graph);
  // What a linked graph has written, or was told to.
  BoundArray bound(const CompiledGraph& graph, const BoundSlot& slot) const;
  // The place of a binding among what the set's graphs do; and whether a tensor was computed later.
  std::uint64_t count_binding() const;
  bool is_newer(const Tensor& tensor, std::uint64_t than) const;
  // A forward pass will read these, until its gradient pass has; and whether the latter finds them.
  // Raises where a linked graph was to compute one of them again.
  void note_read(const CompiledGraph& graph, const std::vector<BoundArray>& bound);
  void check_read() const;
  // Says what a run will send; call in the order of submission.
  void announce(const CompiledGraph& graph, Run run);
  // Sends it. Call while holding the stream.
  void write(const CompiledGraph& graph, Run run) const;
  // Adds the entries of what this program sends.
  void list(const CompiledGraph& graph, MemoryPlan& plan) const;

 private:
  const GraphState& graph_;  // not for `write`: work in flight may outlive it
  const Backend& backend_;
  const std::shared_ptr<LinkSet> links_;  // null: linked with nothing
  // Linked values of the last forward pass, and when they were written.
  std::vector<std::pair<const Tensor*, std::uint64_t>> read_;
};

}  // namespace traingraph
