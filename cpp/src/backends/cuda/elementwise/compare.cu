// Comparisons of broadcast operands, and one-hot encoding.
#include "backends/cuda/device/broadcast.h"
#include "backends/cuda/kernel/node_kernel.h"
#include "ir/comparison.h"

namespace traingraph::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads)
    compare(std::int64_t count, const __grid_constant__ Broadcast<2> broadcast,
            ir::Comparison comparison, const T* x, const T* y, std::uint8_t* result) {
  const std::int64_t element = thread_number();
  if (element >= count) return;
  const bool is =
      ir::holds(comparison, x[broadcast.offset(0, element)], y[broadcast.offset(1, element)]);
  result[element] = is ? 1 : 0;
}

// logical_not has one operand; it serves as the second one too.
template <class T>
class Compare final : public NodeKernel {
 public:
  Compare(const ir::Graph& graph, const ir::Node& node, const Context&)
      : NodeKernel(graph, node),
        comparison_(std::get<ir::CompareAttributes>(node.attributes).comparison),
        count_(graph.type(node.outputs[0]).elements()),
        broadcast_(graph.type(node.outputs[0]).shape,
                   {graph.type(node.inputs[0]).shape, graph.type(node.inputs.back()).shape}, 1) {}

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (count_ == 0) return;
    compare<T><<<blocks_for(count_), kThreads, 0, stream>>>(
        count_, broadcast_, comparison_, in<T>(pointers, 0), in<T>(pointers, inputs_.size() - 1),
        out<std::uint8_t>(pointers, 0));
    check_launch("compare");
  }

 private:
  ir::Comparison comparison_;
  std::int64_t count_;
  Broadcast<2> broadcast_;
};

Support supports_compare(const ir::Graph& graph, const ir::Node& node) {
  return supports_any_type(graph, node, node.inputs[0]);
}

std::unique_ptr<Kernel> make_compare(const ir::Graph& graph, const ir::Node& node,
                                     const Context& context) {
  return make_of_type<Compare>(graph, node, context, node.inputs[0]);
}

// Classes (N, 1, inner) → (N, depth, inner), a thread per element of the result.
template <class T, class Integer>
__global__ void __launch_bounds__(kThreads)
    mark(std::int64_t count, const __grid_constant__ Divider inner,
         const __grid_constant__ Divider depth, const Integer* classes, T* result) {
  const std::int64_t element = thread_number();
  if (element >= count) return;
  std::int64_t row = element;
  const std::int64_t i = inner.split(row);
  const std::int64_t k = depth.split(row);
  const auto at = static_cast<std::int64_t>(classes[row * inner.divisor + i]);
  result[element] = at == k ? T(1) : T(0);
}

template <class T>
class OneHot final : public NodeKernel {
 public:
  OneHot(const ir::Graph& graph, const ir::Node& node, const Context&)
      : NodeKernel(graph, node),
        count_(graph.type(node.outputs[0]).elements()),
        wide_(graph.type(node.inputs[0]).data_type == DataType::kInt64) {
    const Shape& shape = graph.type(node.outputs[0]).shape;
    std::int64_t inner = 1;
    for (std::size_t k = 2; k < shape.size(); ++k) inner *= shape[k];
    inner_ = Divider(inner);
    depth_ = Divider(shape[1]);
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (count_ == 0) return;
    const unsigned blocks = blocks_for(count_);
    if (wide_) {
      mark<<<blocks, kThreads, 0, stream>>>(count_, inner_, depth_, in<std::int64_t>(pointers, 0),
                                            out<T>(pointers, 0));
    } else {
      mark<<<blocks, kThreads, 0, stream>>>(count_, inner_, depth_, in<std::int32_t>(pointers, 0),
                                            out<T>(pointers, 0));
    }
    check_launch("one_hot");
  }

 private:
  std::int64_t count_;
  bool wide_;
  Divider inner_, depth_;
};

}  // namespace

std::vector<KernelEntry> compare_entries() {
  return {{ir::Op::compare, supports_compare, make_compare, nullptr, nullptr},
          {ir::Op::one_hot, supports_floating, make_floating<OneHot>, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
