// Softmax, its logarithm and their gradients along any axis of plain tensors.
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa_select.h"
#include "backends/cpu/softmax_row_units.h"

namespace traingraph::cpu {
namespace {

Support supports(const ir::Graph& graph, const ir::Node& node) {
  for (ir::ValueId id : node.inputs) {
    if (graph.type(id).data_type != DataType::kFloat32) {
      return Support::no("hand-written softmax loops take float32");
    }
  }
  return {};
}

class Softmax final : public Kernel {
 public:
  Softmax(const ir::Graph& graph, const ir::Node& node)
      : loops_(*loops().softmax),
        logarithm_(std::get<ir::SoftmaxAttributes>(node.attributes).logarithm),
        units_(graph.type(node.inputs[0]).shape,
               std::get<ir::SoftmaxAttributes>(node.attributes).axis),
        gradient_(node.op == ir::Op::softmax_gradient),
        x_(node.inputs[0]),
        y_(node.inputs.back()),
        result_(node.outputs[0]) {}

  void run(Pointers pointers) override {
    const float* x = reinterpret_cast<const float*>(pointers[x_]);
    const float* y = reinterpret_cast<const float*>(pointers[y_]);
    float* result = reinterpret_cast<float*>(pointers[result_]);
    units_.run([&](std::int64_t begin, std::int64_t end) {
      if (gradient_) {
        loops_.gradient(units_.rows, x, y, result, logarithm_, begin, end);
      } else {
        loops_.forward(units_.rows, x, result, logarithm_, begin, end);
      }
    });
  }

 private:
  const SoftmaxLoops& loops_;
  bool logarithm_;
  ClassUnits units_;
  bool gradient_;
  ir::ValueId x_;  // of the gradient: dy
  ir::ValueId y_;
  ir::ValueId result_;
};

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<Softmax>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& softmax_entries() {
  static const std::vector<KernelEntry> entries = {
      KernelEntry{ir::Op::softmax, supports, make, nullptr, nullptr},
      KernelEntry{ir::Op::softmax_gradient, supports, make, nullptr, nullptr}};
  return entries;
}

}  // namespace traingraph::cpu
