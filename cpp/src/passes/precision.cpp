#include <traingraph/errors.h>

#include "passes/passes.h"

namespace traingraph::passes {
namespace {

// Products may round their operands; everything else stays as it is.
ir::Graph with_tf32(ir::Graph graph) {
  for (ir::Node& node : graph.nodes) {
    if (auto* matmul = std::get_if<ir::MatmulAttributes>(&node.attributes)) matmul->tf32 = true;
    if (auto* window = std::get_if<ir::ConvolutionAttributes>(&node.attributes)) {
      window->tf32 = true;
    }
  }
  return graph;
}

}  // namespace

ir::Graph with_precision(const ir::Graph& graph, Precision precision,
                         const std::vector<ir::ValueId>& visible) {
  if (precision == Precision::kFloat32) return graph;
  if (precision == Precision::kTf32) return with_tf32(graph);
  static_cast<void>(visible);
  throw Unsupported(std::string("[compile] no pass for precision ") + name(precision));
}

}  // namespace traingraph::passes
