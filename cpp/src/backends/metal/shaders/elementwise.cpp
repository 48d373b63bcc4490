// Lists of scalar functions, which a shader interprets.
#include <cstring>

#include "backends/metal/shaders/shader_kernel.h"

namespace traingraph::metal {
namespace {

// The list with registers that share places once nothing reads them any more.
struct Placed {
  std::vector<shader::Step> code;
  std::vector<int> result_registers;
  int registers = 0;
};

Placed placed(const ir::ScalarList& list) {
  // The last instruction that reads each register; results stay to the end.
  const auto count = static_cast<std::size_t>(list.registers());
  std::vector<int> last(count, -1);
  const auto steps = static_cast<int>(list.code.size());
  for (int k = 0; k < steps; ++k) {
    const ir::Instruction& instruction = list.code[static_cast<std::size_t>(k)];
    for (int operand : {instruction.x, instruction.y}) {
      if (operand >= 0) last[static_cast<std::size_t>(operand)] = k;
    }
  }
  for (int result : list.results) last[static_cast<std::size_t>(result)] = steps;

  Placed done;
  std::vector<int> place(count, -1), free;
  for (int i = 0; i < list.inputs; ++i) place[static_cast<std::size_t>(i)] = i;
  done.registers = list.inputs;
  const auto at = [&](int operand) {
    return operand < 0 ? -1 : place[static_cast<std::size_t>(operand)];
  };
  for (int k = 0; k < steps; ++k) {
    const ir::Instruction& from = list.code[static_cast<std::size_t>(k)];
    shader::Step step{
        static_cast<int>(from.function), at(from.x), at(from.y), 0, static_cast<float>(from.p),
        static_cast<float>(from.q)};
    // An operand's place is free for the result: it is written after both are read.
    for (int operand : {from.x, from.y}) {
      if (operand < 0 || last[static_cast<std::size_t>(operand)] != k) continue;
      free.push_back(place[static_cast<std::size_t>(operand)]);
      last[static_cast<std::size_t>(operand)] = -1;
    }
    if (free.empty()) {
      step.to = done.registers++;
    } else {
      step.to = free.back();
      free.pop_back();
    }
    place[static_cast<std::size_t>(list.inputs + k)] = step.to;
    done.code.push_back(step);
  }
  for (int result : list.results) done.result_registers.push_back(at(result));
  return done;
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const Support support = supports_float(graph, node);
  if (!support.yes) return support;
  const auto& list = std::get<ir::ElementwiseAttributes>(node.attributes).list;
  if (list.inputs > shader::kListInputs) return Support::no("a list of more than 16 inputs");
  if (list.results.size() > shader::kListResults) {
    return Support::no("a list of more than 8 results");
  }
  if (placed(list).registers > shader::kListRegisters) {
    return Support::no("a list that needs more than 64 registers at a time");
  }
  return {};
}

class Elementwise final : public Kernel {
 public:
  Elementwise(const ir::Graph& graph, const ir::Node& node, Device& device)
      : shader_(device.shader("elementwise")),
        inputs_(node.inputs),
        outputs_(node.outputs),
        threads_(graph.type(node.outputs[0]).elements()) {
    const auto& list = std::get<ir::ElementwiseAttributes>(node.attributes).list;
    const Placed program = placed(list);
    const Shape& shape = graph.type(node.outputs[0]).shape;
    list_.inputs = list.inputs;
    list_.steps = static_cast<int>(program.code.size());
    list_.results = static_cast<int>(program.result_registers.size());
    std::copy(program.result_registers.begin(), program.result_registers.end(),
              list_.result_registers);
    list_.extents = extents_of(shape);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      list_.inputs_strides[i] = broadcast_strides(graph.type(node.inputs[i]).shape, shape);
    }
    const std::size_t bytes = program.code.size() * sizeof(shader::Step);
    code_ = device.keep(bytes);
    std::memcpy(code_.get(), program.code.data(), bytes);
  }

  void encode(Pointers pointers, Encoding& encoding) override {
    const std::byte* buffers[shader::kListInputs + shader::kListResults + 1];
    for (std::size_t i = 0; i < shader::kListInputs; ++i) {
      buffers[i] = i < inputs_.size() ? pointers[inputs_[i]] : code_.get();
    }
    for (std::size_t r = 0; r < shader::kListResults; ++r) {
      buffers[shader::kListInputs + r] = pointers[outputs_[r < outputs_.size() ? r : 0]];
    }
    buffers[shader::kListInputs + shader::kListResults] = code_.get();
    encoding.run(shader_, buffers, std::size(buffers), &list_, sizeof list_, threads_);
  }

 private:
  const Shader& shader_;
  std::vector<ir::ValueId> inputs_, outputs_;
  std::int64_t threads_;
  shader::List list_{};
  std::shared_ptr<std::byte> code_;
};

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, Device& device) {
  return std::make_unique<Elementwise>(graph, node, device);
}

}  // namespace

std::vector<KernelEntry> elementwise_entries() { return {{ir::Op::elementwise, supports, make}}; }

}  // namespace traingraph::metal
