// A graph whose nodes a pass joins one after another: which of them live, who reads what, and which
// wait for which.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace traingraph::passes {

class LivingNodes {
 public:
  explicit LivingNodes(const ir::Graph& graph);

  ir::Graph& graph() { return graph_; }
  bool lives(ir::NodeId id) const { return !dead_[static_cast<std::size_t>(id)]; }
  // Uses of a value as an input, counted with repetition, over living nodes.
  int uses(ir::ValueId value) const { return uses_[static_cast<std::size_t>(value)]; }
  // Whether computing `value` needs the node.
  bool depends_on(ir::ValueId value, ir::NodeId node) const;

  void kill(ir::NodeId id);
  // Kills the producer of a value that nobody reads, and what only it has read.
  void bury(ir::ValueId value);
  // After the node has been given other inputs, `before` at first.
  void note_inputs(ir::NodeId id, const std::vector<ir::ValueId>& before);
  // The node waits for what the other one waits for, and so do those that read its results.
  void wait_like(ir::NodeId id, ir::NodeId other);
  // A value becomes one more result of the node.
  void add_result(ir::NodeId id, ir::ValueId value);

  // The living nodes in an order that respects phases and data, as close to the old one as
  // possible.
  ir::Graph sorted() const { return ir::without_nodes(graph_, dead_); }

 private:
  void count(const std::vector<ir::ValueId>& inputs, int by);
  void raise(std::vector<ir::NodeId> open, ir::NodeId latest);

  ir::Graph graph_;
  std::vector<bool> dead_;
  std::vector<int> uses_;                         // by value
  std::vector<std::vector<ir::NodeId>> readers_;  // by value; some may read it no longer
  std::vector<ir::NodeId> latest_;  // by node: none that it waits for stood later than this one
};

}  // namespace traingraph::passes
