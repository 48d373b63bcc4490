#include "backends/cuda/device.h"
#include "backends/cuda/node_kernel.h"
#include "runtime/philox.h"

namespace traingraph::cuda {
namespace {

template <class T>
struct alignas(16) Four {
  T element[4];
};

// x, step, first row → y: 0 where the element is dropped, else x / (1 - rate). A mask counts the
// elements of the whole batch. A thread takes the four elements that share a block of Philox.
template <class T>
__global__ void __launch_bounds__(kThreads)
    drop(std::int64_t count, std::int64_t row, std::uint64_t seed, std::uint32_t threshold, T scale,
         const T* x, const std::int64_t* step, const std::int64_t* first_row, T* y) {
  const std::int64_t first = first_row == nullptr ? 0 : *first_row * row;
  const std::int64_t block = first / 4 + thread_number();
  const std::int64_t start = block * 4 - first;  // below 0 in the first block of an odd row
  if (start >= count) return;
  const philox::Block words =
      philox::block_of(seed, static_cast<std::uint64_t>(*step), static_cast<std::uint64_t>(block));
  if (start >= 0 && start + 4 <= count && start % 4 == 0) {
    auto four = *reinterpret_cast<const Four<T>*>(x + start);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      four.element[k] = words.word[k] < threshold ? T(0) : four.element[k] * scale;
    }
    *reinterpret_cast<Four<T>*>(y + start) = four;
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const std::int64_t at = start + k;
    if (at < 0 || at >= count) continue;
    y[at] = words.word[k] < threshold ? T(0) : x[at] * scale;
  }
}

template <class T>
class Dropout final : public NodeKernel {
 public:
  Dropout(const ir::Graph& graph, const ir::Node& node, const Context&)
      : NodeKernel(graph, node), count_(graph.type(node.outputs[0]).elements()) {
    const auto& a = std::get<ir::DropoutAttributes>(node.attributes);
    const Shape& shape = graph.type(node.outputs[0]).shape;
    row_ = shape.empty() || shape[0] == 0 ? count_ : count_ / shape[0];
    seed_ = a.seed;
    threshold_ = philox::keep_threshold(a.rate);
    scale_ = static_cast<T>(1 / (1 - a.rate));
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (count_ == 0) return;
    const auto* first_row = inputs_.size() > 2 ? in<std::int64_t>(pointers, 2) : nullptr;
    drop<T><<<blocks_for(count_ / 4 + 2), kThreads, 0, stream>>>(
        count_, row_, seed_, threshold_, scale_, in<T>(pointers, 0), in<std::int64_t>(pointers, 1),
        first_row, out<T>(pointers, 0));
    check_launch("dropout");
  }

 private:
  std::int64_t count_, row_;
  std::uint64_t seed_;
  std::uint32_t threshold_;
  T scale_;
};

}  // namespace

std::vector<KernelEntry> dropout_entries() {
  return {{ir::Op::dropout, supports_floating, make_floating<Dropout>, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
