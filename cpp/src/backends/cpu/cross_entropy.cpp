// Softmax cross entropy and its gradient along class axis 1 of plain tensors.
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa_select.h"
#include "backends/cpu/softmax_row_units.h"

namespace traingraph::cpu {
namespace {

const ir::CrossEntropyAttributes& attributes_of(const ir::Node& node) {
  return std::get<ir::CrossEntropyAttributes>(node.attributes);
}

// Of the forward op (logits, labels), of the gradient (dloss, logits, labels, logarithm).
std::size_t logits_of(const ir::Node& node) {
  return node.op == ir::Op::softmax_cross_entropy ? 0 : 1;
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const std::size_t logits = logits_of(node);
  if (graph.type(node.inputs[logits]).data_type != DataType::kFloat32) {
    return Support::no("hand-written cross entropy loops take float32");
  }
  const DataType labels = graph.type(node.inputs[logits + 1]).data_type;
  if (labels != DataType::kFloat32 && labels != DataType::kInt32 && labels != DataType::kInt64) {
    return Support::no(std::string("labels of type ") + name(labels) +
                       " (hand-written cross entropy loops take float32, int32, int64)");
  }
  return {};
}

class SoftmaxCrossEntropy final : public Kernel {
 public:
  SoftmaxCrossEntropy(const ir::Graph& graph, const ir::Node& node)
      : loops_(*loops().softmax),
        node_(node),
        units_(graph.type(node.inputs[logits_of(node)]).shape, 1) {
    const ir::CrossEntropyAttributes& a = attributes_of(node);
    const DataType labels = graph.type(node.inputs[logits_of(node) + 1]).data_type;
    op_.rows = units_.rows;
    op_.labels = labels == DataType::kInt64   ? Labels::int64
                 : labels == DataType::kInt32 ? Labels::int32
                                              : Labels::distribution;
    const std::int64_t classes = a.classes > 0 ? a.classes : op_.rows.classes;
    op_.scale = static_cast<float>(1 - a.smoothing);
    op_.share = static_cast<float>(a.smoothing / static_cast<double>(classes));
  }

  void run(Pointers pointers) override {
    auto in = [&](std::size_t i) {
      return reinterpret_cast<const float*>(pointers[node_.inputs[i]]);
    };
    auto out = [&](std::size_t i) { return reinterpret_cast<float*>(pointers[node_.outputs[i]]); };
    if (node_.op == ir::Op::softmax_cross_entropy) {
      units_.run([&](std::int64_t begin, std::int64_t end) {
        loops_.cross_entropy(op_, in(0), in(1), out(0), out(1), begin, end);
      });
    } else {
      units_.run([&](std::int64_t begin, std::int64_t end) {
        loops_.cross_entropy_gradient(op_, in(0), in(1), in(2), in(3), out(0), begin, end);
      });
    }
  }

 private:
  const SoftmaxLoops& loops_;
  ir::Node node_;
  ClassUnits units_;
  CrossEntropy op_{};
};

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<SoftmaxCrossEntropy>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& cross_entropy_entries() {
  static const std::vector<KernelEntry> entries = {
      KernelEntry{ir::Op::softmax_cross_entropy, supports, make, nullptr, nullptr},
      KernelEntry{ir::Op::softmax_cross_entropy_gradient, supports, make, nullptr, nullptr}};
  return entries;
}

}  // namespace traingraph::cpu
