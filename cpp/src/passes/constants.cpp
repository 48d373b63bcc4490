// Values that an op without operands gives are written once, when the program is made.
#include <utility>

#include "passes/passes.h"
#include "runtime/memory/fill.h"
#include "runtime/memory/transfer.h"

namespace traingraph::passes {
namespace {

using ir::kNone;

// One number for all elements, or one for each; none of another op.
std::vector<double> numbers_of(const ir::Node& node) {
  if (const auto* constant = std::get_if<ir::ConstantAttributes>(&node.attributes)) {
    return constant->numbers;
  }
  const auto* elementwise = std::get_if<ir::ElementwiseAttributes>(&node.attributes);
  if (elementwise == nullptr || !node.inputs.empty() || node.outputs.size() != 1) return {};
  const std::vector<ir::Instruction>& code = elementwise->list.code;
  if (code.size() != 1 || code[0].function != ir::Scalar::constant) return {};
  return {code[0].p};
}

// In a place of its own that nothing else writes.
bool is_apart(const ir::Value& value) {
  return !value.keep && value.writes == kNone && value.layout.plain() && value.type.elements() > 0;
}

}  // namespace

std::vector<Constant> take_constants(ir::Graph& graph) {
  std::vector<Constant> constants;
  for (ir::Node& node : std::exchange(graph.nodes, {})) {
    std::vector<double> numbers = numbers_of(node);
    if (numbers.empty() || !is_apart(graph.value(node.outputs[0]))) {
      graph.append(std::move(node));
      continue;
    }
    ir::Value& value = graph.value(node.outputs[0]);
    value.source = ir::Source::constant;
    value.producer = kNone;
    value.name = "constant" + ir::where(graph, node);
    constants.push_back({node.outputs[0], std::move(numbers)});
  }
  return constants;
}

void write_constants(const std::vector<Constant>& constants, const Backend& backend,
                     Program& program) {
  for (const Constant& constant : constants) {
    const ir::Type& type = program.graph.type(constant.value);
    std::vector<std::byte> numbers(ir::storage_bytes(type, {}));
    const std::size_t step = numbers.size() / constant.numbers.size();
    for (std::size_t k = 0; k < constant.numbers.size(); ++k) {
      fill(numbers.data() + k * step, step, type.data_type, constant.numbers[k]);
    }
    const std::shared_ptr<std::byte> bytes = backend.allocate(numbers.size());
    if (bytes != nullptr) upload(backend, type, numbers.data(), {}, bytes.get());
    program.add_constant(constant.value, bytes);
  }
}

}  // namespace traingraph::passes
