// Values that an op without operands gives are written once, when the program is made.
#include <algorithm>

#include <traingraph/tensor.h>

#include "passes/passes.h"
#include "runtime/transfer.h"

namespace traingraph::passes {
namespace {

using ir::kNone;

// One number, in a place of its own that nothing else writes.
bool is_constant(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != ir::Op::elementwise || !node.inputs.empty() || node.outputs.size() != 1) {
    return false;
  }
  const ir::ScalarList& list = std::get<ir::ElementwiseAttributes>(node.attributes).list;
  const ir::Value& value = graph.value(node.outputs[0]);
  return list.code.size() == 1 && list.code[0].function == ir::Scalar::constant && !value.keep &&
         value.writes == kNone && value.layout.plain() && value.type.elements() > 0;
}

}  // namespace

std::vector<Constant> take_constants(ir::Graph& graph) {
  std::vector<Constant> constants;
  const auto end =
      std::remove_if(graph.nodes.begin(), graph.nodes.end(), [&](const ir::Node& node) {
        if (!is_constant(graph, node)) return false;
        ir::Value& value = graph.value(node.outputs[0]);
        value.source = ir::Source::constant;
        value.producer = kNone;
        value.name = "constant" + ir::where(graph, node);
        const auto& list = std::get<ir::ElementwiseAttributes>(node.attributes).list;
        constants.push_back({node.outputs[0], list.code[0].p});
        return true;
      });
  graph.nodes.erase(end, graph.nodes.end());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (ir::ValueId output : graph.nodes[n].outputs) {
      graph.value(output).producer = static_cast<ir::NodeId>(n);
    }
  }
  return constants;
}

void write_constants(const std::vector<Constant>& constants, const Backend& backend,
                     Program& program) {
  for (const Constant& constant : constants) {
    const ir::Type& type = program.graph.type(constant.value);
    const TensorPtr numbers =
        Tensor::filled(TensorDescriptor({type.elements()}, type.data_type), constant.number);
    const std::shared_ptr<std::byte> bytes = backend.allocate(ir::storage_bytes(type, {}));
    if (bytes != nullptr) upload(backend, type, numbers->data().bytes, {}, bytes.get());
    program.hold(constant.value, bytes);
  }
}

}  // namespace traingraph::passes
