// Casts from and to float64. Elementwise lists do not mix float64 with other types.
#include "backends/cuda/convolution/layouts.h"
#include "backends/cuda/device/storage.h"
#include "ir/cast.h"

namespace traingraph::cuda {
namespace {

template <class From, class To>
__global__ void __launch_bounds__(kThreads) cast(std::int64_t count, const From* from, To* to) {
  const std::int64_t at = thread_number();
  if (at < count) to[at] = narrow<To>(static_cast<Compute<To>>(widen(from[at])));
}

template <class From, class To>
class Cast final : public NodeKernel {
 public:
  Cast(const ir::Graph& graph, const ir::Node& node)
      : NodeKernel(graph, node), count_(graph.type(node.outputs[0]).elements()) {}

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (count_ == 0) return;
    cast<<<blocks_for(count_), kThreads, 0, stream>>>(count_, in<From>(pointers, 0),
                                                      out<To>(pointers, 0));
    check_launch("cast");
  }

 private:
  std::int64_t count_;
};

template <class From>
std::unique_ptr<Kernel> make_from(const ir::Graph& graph, const ir::Node& node) {
  switch (graph.type(node.outputs[0]).data_type) {
    case DataType::kFloat16:
      return std::make_unique<Cast<From, __half>>(graph, node);
    case DataType::kBFloat16:
      return std::make_unique<Cast<From, __nv_bfloat16>>(graph, node);
    case DataType::kFloat64:
      return std::make_unique<Cast<From, double>>(graph, node);
    default:
      return std::make_unique<Cast<From, float>>(graph, node);
  }
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context&) {
  switch (graph.type(node.inputs[0]).data_type) {
    case DataType::kFloat16:
      return make_from<__half>(graph, node);
    case DataType::kBFloat16:
      return make_from<__nv_bfloat16>(graph, node);
    case DataType::kFloat64:
      return make_from<double>(graph, node);
    default:
      return make_from<float>(graph, node);
  }
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (!ir::is_cast(std::get<ir::ElementwiseAttributes>(node.attributes)))
    return Support::no("casts: another list");
  const ir::Type& from = graph.type(node.inputs[0]);
  const ir::Type& to = graph.type(node.outputs[0]);
  const bool wide = from.data_type == DataType::kFloat64 || to.data_type == DataType::kFloat64;
  if (!wide || !is_floating_point(from.data_type) || !is_floating_point(to.data_type)) {
    return Support::no("casts: lists take those without float64");
  }
  if (from.shape != to.shape) return Support::no("casts: an operand that is broadcast");
  return {};
}

}  // namespace

std::vector<KernelEntry> cast_entries() {
  return {{ir::Op::elementwise, supports, make, layouts_as_given, nullptr}};
}

}  // namespace traingraph::cuda
