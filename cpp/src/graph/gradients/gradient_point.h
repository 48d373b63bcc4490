#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "graph/lowering/lowering.h"
#include "graph/run/executor.h"

namespace traingraph {

// Gradients that a device has computed, and everything that the loss was a function of.
struct GradientPoint {
  std::shared_ptr<const GraphState> graph;
  LoweredGraph lowered;
  // Of bound tensors and parameters, dense row-major in their own types.
  std::map<const Tensor*, TensorData> values;
  // Of lowered.trained, in float64; empty where nothing flows.
  std::vector<std::vector<double>> gradients;
  std::int64_t forward_passes = 0;  // what masks follow from
};

// Floating-point numbers of any width.
std::vector<double> float64_numbers(const TensorData& data);

// Runs the forward and gradient pass of a compiled graph as its next step would, by programs of
// their own. What the passes change (running statistics) has its bytes back afterwards, the graph
// counts no pass, and reads its own last results. Waits for what was submitted before. Raises what
// an execution raises.
GradientPoint gradients_at(GraphState& state, const ExecutionArguments& arguments);

}  // namespace traingraph
