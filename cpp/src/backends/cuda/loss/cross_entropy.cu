// Softmax cross entropy and its gradient (cross_entropy_tasks.h).
#include "backends/cuda/tasks/cross_entropy_tasks.h"
#include "backends/cuda/tasks/row_kernel.h"

namespace traingraph::cuda {
namespace {

template <class T>
class CrossEntropy final : public RowKernel<T, CrossEntropy<T>> {
 public:
  CrossEntropy(const ir::Graph& graph, const ir::Node& node, const Context&)
      : RowKernel<T, CrossEntropy<T>>(graph, node,
                                      Rows(graph.type(node.inputs[is_gradient(node)]).shape, 1)),
        gradient_(is_gradient(node)),
        labels_(labels_of(graph, node, labels_input())) {}

  // Calls f with the tasks for so many lanes.
  template <int kLanes, class F>
  void with_tasks(Pointers pointers, F&& f) const {
    auto input = [&](std::size_t i) { return this->template in<T>(pointers, i); };
    auto output = [&](std::size_t i) { return this->template out<T>(pointers, i); };
    Labels labels = labels_;
    labels.data = this->template in<std::byte>(pointers, labels_input());
    if (gradient_) {
      f(LossGradientTasks<T, kLanes>{this->rows_, labels, input(0), input(1), input(3), output(0)});
    } else {
      f(LossTasks<T, kLanes>{this->rows_, labels, input(0), output(0), output(1)});
    }
  }

 private:
  // Also the input number of the logits: a gradient's first input is that of the loss.
  static bool is_gradient(const ir::Node& node) {
    return node.op == ir::Op::softmax_cross_entropy_gradient;
  }
  std::size_t labels_input() const { return gradient_ ? 2 : 1; }

  bool gradient_;
  Labels labels_;
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const std::size_t input = node.op == ir::Op::softmax_cross_entropy ? 1 : 2;
  const DataType labels = graph.type(node.inputs[input]).data_type;
  if (!is_floating_point(labels) && labels != DataType::kInt32 && labels != DataType::kInt64) {
    return Support::no(std::string("labels of data type ") + name(labels));
  }
  return supports_floating(graph, node);
}

}  // namespace

std::vector<KernelEntry> cross_entropy_entries() {
  return {{ir::Op::softmax_cross_entropy, supports, make_floating<CrossEntropy>, nullptr, nullptr},
          {ir::Op::softmax_cross_entropy_gradient, supports, make_floating<CrossEntropy>, nullptr,
           nullptr}};
}

}  // namespace traingraph::cuda
