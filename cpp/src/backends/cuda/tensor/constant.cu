// Constants that share memory with other values, so that each run writes them again. All other
// constants are written once, when the program is made (passes/constants.cpp).
#include <algorithm>

#include "backends/cuda/device/device.h"
#include "backends/cuda/kernel/node_kernel.h"

namespace traingraph::cuda {
namespace {

constexpr int kAtOnce = 128;  // numbers per launch, as kernel arguments

struct Numbers {
  double number[kAtOnce];
};

// Fills the tensor with one number, or writes one number per element.
template <class T>
__global__ void __launch_bounds__(kThreads)
    write(std::int64_t count, bool one, const __grid_constant__ Numbers given, T* y) {
  const std::int64_t element = thread_number();
  if (element < count) y[element] = static_cast<T>(given.number[one ? 0 : element]);
}

template <class T>
class Constant final : public NodeKernel {
 public:
  Constant(const ir::Graph& graph, const ir::Node& node, const Context&)
      : NodeKernel(graph, node),
        count_(graph.type(node.outputs[0]).elements()),
        numbers_(std::get<ir::ConstantAttributes>(node.attributes).numbers) {}

  void launch(Pointers pointers, cudaStream_t stream) const override {
    const auto all = static_cast<std::int64_t>(numbers_.size());
    for (std::int64_t first = 0; first < all && count_ > 0; first += kAtOnce) {
      const std::int64_t numbers = std::min<std::int64_t>(kAtOnce, all - first);
      const std::int64_t count = all == 1 ? count_ : numbers;
      Numbers given = {};
      std::copy_n(numbers_.begin() + first, numbers, given.number);
      write<T><<<blocks_for(count), kThreads, 0, stream>>>(count, all == 1, given,
                                                           out<T>(pointers, 0) + first);
    }
    check_launch("constant");
  }

 private:
  std::int64_t count_;
  std::vector<double> numbers_;
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  return supports_any_type(graph, node, node.outputs[0]);
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context& context) {
  return make_of_type<Constant>(graph, node, context, node.outputs[0]);
}

}  // namespace

std::vector<KernelEntry> constant_entries() {
  return {{ir::Op::constant, supports, make, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
