// Softmax, its logarithm and their gradients (softmax_tasks.h).
#include "backends/cuda/kernel/node_kernel.h"
#include "backends/cuda/tasks/row_kernel.h"
#include "backends/cuda/tasks/softmax_tasks.h"

namespace traingraph::cuda {
namespace {

template <class T>
class Softmax final : public RowKernel<T, Softmax<T>> {
 public:
  Softmax(const ir::Graph& graph, const ir::Node& node, const Context&)
      : RowKernel<T, Softmax<T>>(graph, node,
                                 Rows(graph.type(node.outputs[0]).shape,
                                      std::get<ir::SoftmaxAttributes>(node.attributes).axis)),
        logarithm_(std::get<ir::SoftmaxAttributes>(node.attributes).logarithm),
        gradient_(node.op == ir::Op::softmax_gradient) {}

  // Calls f with the tasks for so many lanes.
  template <int kLanes, class F>
  void with_tasks(Pointers pointers, F&& f) const {
    const T* const first = this->template in<T>(pointers, 0);
    T* const result = this->template out<T>(pointers, 0);
    if (gradient_) {
      f(SoftmaxGradientTasks<T, kLanes>{this->rows_, logarithm_, first,
                                        this->template in<T>(pointers, 1), result});
    } else {
      f(SoftmaxTasks<T, kLanes>{this->rows_, logarithm_, first, result});
    }
  }

 private:
  bool logarithm_, gradient_;
};

}  // namespace

std::vector<KernelEntry> softmax_entries() {
  return {{ir::Op::softmax, supports_floating, make_floating<Softmax>, nullptr, nullptr},
          {ir::Op::softmax_gradient, supports_floating, make_floating<Softmax>, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
