#include "backends/bnns/small_case.h"

#include <cmath>

#include <traingraph/errors.h>

#include "backends/reference/reference.h"

namespace traingraph::bnns {
namespace {

ir::Graph graph_of(const SmallCase& small) {
  ir::Graph graph;
  std::vector<ir::ValueId> inputs;
  for (const Shape& shape : small.inputs) {
    const int slot = static_cast<int>(inputs.size());
    inputs.push_back(graph.add_source(ir::Source::bound, slot, {DataType::kFloat32, shape}, "x"));
  }
  std::vector<ir::Type> results;
  for (const Shape& shape : small.results) results.push_back({DataType::kFloat32, shape});
  graph.add_node(small.op, small.attributes, inputs, results);
  return graph;
}

// Numbers from 0.1 to 1, different in each round: roots of all of them exist.
float number(std::size_t at, int round) {
  return 0.1f + 0.9f * static_cast<float>((at * 7 + static_cast<std::size_t>(round) * 5) % 11) / 11;
}

// The results of one kernel in both rounds, one array behind another.
std::vector<float> results_of(const ir::Graph& graph, Kernel& kernel) {
  std::vector<std::vector<float>> arrays;
  for (const ir::Value& value : graph.values) {
    arrays.emplace_back(static_cast<std::size_t>(value.type.elements()));
  }
  arrays.emplace_back(kernel.workspace_bytes() / sizeof(float) + 1);
  std::vector<std::byte*> pointers;
  for (std::vector<float>& array : arrays) {
    pointers.push_back(reinterpret_cast<std::byte*>(array.data()));
  }
  const ir::Node& node = graph.nodes[0];
  std::vector<float> found;
  for (int round = 0; round < 2; ++round) {
    std::size_t at = 0;
    for (ir::ValueId id : node.inputs) {
      for (float& element : arrays[static_cast<std::size_t>(id)]) element = number(at++, round);
    }
    kernel.run(pointers.data());
    for (ir::ValueId id : node.outputs) {
      const std::vector<float>& array = arrays[static_cast<std::size_t>(id)];
      found.insert(found.end(), array.begin(), array.end());
    }
  }
  return found;
}

std::unique_ptr<Kernel> reference_kernel(const ir::Graph& graph) {
  const ir::Node& node = graph.nodes[0];
  for (const KernelEntry& entry : reference::table()) {
    if (entry.op == node.op) return entry.make(graph, node);
  }
  throw InternalError("[bnns] no reference loop for " + std::string(ir::name(node.op)));
}

}  // namespace

bool comes_out_right(const SmallCase& small,
                     std::unique_ptr<Kernel> (*make)(const ir::Graph&, const ir::Node&)) {
  const ir::Graph graph = graph_of(small);
  const std::vector<float> expected = results_of(graph, *reference_kernel(graph));
  std::vector<float> found;
  try {
    found = results_of(graph, *make(graph, graph.nodes[0]));
  } catch (const DeviceError&) {
    return false;
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const float bound = 1e-4f * std::fmax(1.0f, std::fabs(expected[i]));
    if (!(std::fabs(found[i] - expected[i]) <= bound)) return false;
  }
  return true;
}

std::int64_t positions(const ir::Window& window, std::size_t axis, std::int64_t source) {
  const std::int64_t taps = (window.kernel[axis] - 1) * window.dilation[axis] + 1;
  const std::int64_t padded = source + window.padding_before[axis] + window.padding_after[axis];
  return (padded - taps) / window.stride[axis] + 1;
}

}  // namespace traingraph::bnns
