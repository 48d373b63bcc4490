// Argmax and argmin along an axis, with the value. Of equal elements the first one wins, and NaN
// wins over numbers, in any order of comparison.
#include "backends/cuda/device/device.h"
#include "backends/cuda/kernel/node_kernel.h"

namespace traingraph::cuda {
namespace {

template <class T>
struct Best {
  T value;
  int place;  // negative: none yet

  __device__ void take(const Best& other, bool largest) {
    if (other.place < 0) return;
    const bool own_nan = value != value, other_nan = other.value != other.value;
    const bool better = largest ? other.value > value : other.value < value;
    const bool same = own_nan ? other_nan : other.value == value;
    const bool takes =
        place < 0 || (!own_nan && (other_nan || better)) || (same && other.place < place);
    if (takes) *this = other;
  }
};

// x (outer, depth, inner). A column is (o, i).
struct Columns {
  std::int64_t count, depth, inner;
  bool largest, numbers;
};

// kLanes threads share a column. Neighbouring threads read neighbouring elements: those of several
// columns, or those of a column that is contiguous in memory (kRows).
template <class T, int kLanes, bool kRows>
__global__ void __launch_bounds__(kThreads)
    find(const __grid_constant__ Columns columns, const T* x, T* y, void* places) {
  constexpr int kColumns = kThreads / kLanes;
  __shared__ T values[kThreads];
  __shared__ int found[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = kRows ? thread % kLanes : thread / kColumns;
  const int own = kRows ? thread / kLanes : thread % kColumns;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kColumns + own;
  Best<T> best{T(0), -1};
  if (column < columns.count) {
    const T* const from =
        x + column / columns.inner * columns.depth * columns.inner + column % columns.inner;
    for (std::int64_t k = lane; k < columns.depth; k += kLanes) {
      best.take({from[k * columns.inner], static_cast<int>(k)}, columns.largest);
    }
  }
  values[thread] = best.value;
  found[thread] = best.place;
  __syncthreads();
  for (int step = kLanes / 2; step > 0; step /= 2) {
    if (lane < step) {
      const int other = thread + step * (kRows ? 1 : kColumns);
      best.take({values[other], found[other]}, columns.largest);
      values[thread] = best.value;
      found[thread] = best.place;
    }
    __syncthreads();
  }
  if (lane != 0 || column >= columns.count) return;
  y[column] = best.value;
  if (columns.numbers) {
    static_cast<float*>(places)[column] = static_cast<float>(best.place);
  } else {
    static_cast<std::int32_t*>(places)[column] = best.place;
  }
}

template <class T>
class Extremum final : public NodeKernel {
 public:
  Extremum(const ir::Graph& graph, const ir::Node& node, const Context&) : NodeKernel(graph, node) {
    const auto& a = std::get<ir::ExtremumAttributes>(node.attributes);
    const Shape& shape = graph.type(node.inputs[0]).shape;
    std::int64_t inner = 1;
    for (std::size_t k = static_cast<std::size_t>(a.axis) + 1; k < shape.size(); ++k) {
      inner *= shape[k];
    }
    columns_ = {graph.type(node.outputs[0]).elements(), shape[static_cast<std::size_t>(a.axis)],
                inner, a.largest, a.numbers};
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (columns_.count == 0) return;
    if (columns_.inner > 1) {
      enqueue<8, false>(pointers, stream);
    } else if (columns_.depth <= 1024) {
      enqueue<32, true>(pointers, stream);
    } else {
      enqueue<kThreads, true>(pointers, stream);
    }
    check_launch("extremum");
  }

 private:
  template <int kLanes, bool kRows>
  void enqueue(Pointers pointers, cudaStream_t stream) const {
    find<T, kLanes, kRows><<<blocks_for(columns_.count, kThreads / kLanes), kThreads, 0, stream>>>(
        columns_, in<T>(pointers, 0), out<T>(pointers, 0), out<void>(pointers, 1));
  }

  Columns columns_{};
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  return supports_any_type(graph, node, node.inputs[0]);
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context& context) {
  return make_of_type<Extremum>(graph, node, context, node.inputs[0]);
}

}  // namespace

std::vector<KernelEntry> extremum_entries() {
  return {{ir::Op::extremum, supports, make, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
