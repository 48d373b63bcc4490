// Values that an op without operands gives are written once, when the program is made.
#include <utility>

#include "passes/passes.h"
#include "runtime/fill.h"
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
  for (ir::Node& node : std::exchange(graph.nodes, {})) {
    if (!is_constant(graph, node)) {
      graph.append(std::move(node));
      continue;
    }
    ir::Value& value = graph.value(node.outputs[0]);
    value.source = ir::Source::constant;
    value.producer = kNone;
    value.name = "constant" + ir::where(graph, node);
    const auto& list = std::get<ir::ElementwiseAttributes>(node.attributes).list;
    constants.push_back({node.outputs[0], list.code[0].p});
  }
  return constants;
}

void write_constants(const std::vector<Constant>& constants, const Backend& backend,
                     Program& program) {
  for (const Constant& constant : constants) {
    const ir::Type& type = program.graph.type(constant.value);
    std::vector<std::byte> numbers(ir::storage_bytes(type, {}));
    fill(numbers.data(), numbers.size(), type.data_type, constant.number);
    const std::shared_ptr<std::byte> bytes = backend.allocate(numbers.size());
    if (bytes != nullptr) upload(backend, type, numbers.data(), {}, bytes.get());
    program.hold(constant.value, bytes);
  }
}

}  // namespace traingraph::passes
