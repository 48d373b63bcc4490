#pragma once

#include <vector>

#include "graph/lowering/lowering.h"

namespace traingraph {

// Dynamic loss scaling, written as ops: seeds are multiplied by a scale that lives on the device,
// gradients divided by it, and a step whose gradients are not all finite is skipped. The scale is a
// power of two, so that it costs no bits. It halves with each skip and doubles after kGoodSteps.
class LossScaling {
 public:
  static constexpr double kStart = 65536;
  static constexpr double kLeast = 1;
  static constexpr double kMost = 16777216;  // 2^24
  static constexpr int kGoodSteps = 2000;

  // Null where the graph scales nothing.
  static std::unique_ptr<LossScaling> make(const GraphState& state, LoweredGraph& out);
  // Gives a training graph its scale before it is compiled in kMixedFloat16.
  static void prepare(GraphState& state);

  ir::ValueId scaled(ir::ValueId seed);
  ir::ValueId unscaled(ir::ValueId gradient);
  // 1 where every gradient is finite, else 0; an op of the update phase.
  ir::ValueId all_finite(const std::vector<ir::ValueId>& gradients);
  // The scale and the count of good steps after this one.
  void update(ir::ValueId all_finite);

 private:
  LossScaling(const GraphState& state, LoweredGraph& out);

  ir::Graph& graph_;
  ir::ValueId scale_;
  ir::ValueId good_steps_;
};

}  // namespace traingraph
