// Sums over axes. They are cut by shape alone and added in a fixed order, in float64 (cheap beside
// the memory traffic), so that every run and every device of a kind gives the same bits.
#include "backends/cuda/device.h"
#include "backends/cuda/node_kernel.h"

namespace traingraph::cuda {
namespace {

constexpr int kColumns = 32, kRows = 8;       // of a block that sums down columns
constexpr std::int64_t kBlocksWanted = 2048;  // enough to fill a device

// What one op sums: result `o` starts at kept.offset(o), element k of its sum lies
// summed.offset(k) further. `parts` blocks share each sum; `length` elements are one part.
struct Plan {
  Walk kept, summed;
  std::int64_t results = 1, count = 1, parts = 1, length = 1;
  bool squares = false;
};

template <class T>
__device__ double term(T value, bool squares) {
  const double wide = static_cast<double>(value);
  return squares ? wide * wide : wide;
}

// Writes a sum, or one part of it: (parts, results).
template <class T>
__device__ void put(const Plan& plan, T* y, double* partial, std::int64_t result, std::int64_t part,
                    double sum) {
  if (plan.parts == 1) {
    y[result] = static_cast<T>(sum);
  } else {
    partial[part * plan.results + result] = sum;
  }
}

// kLanes threads per result, over elements that lie beside each other, kPack at a time.
template <class T, int kLanes, int kPack>
__global__ void __launch_bounds__(kThreads)
    sum_rows(const __grid_constant__ Plan plan, const T* x, T* y, double* partial) {
  const std::int64_t number = thread_number() / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  if (number >= plan.results * plan.parts) return;
  const std::int64_t result = number / plan.parts, part = number % plan.parts;
  const T* const start = x + plan.kept.offset(result);
  const std::int64_t first = part * plan.length;
  const std::int64_t last = first + plan.length < plan.count ? first + plan.length : plan.count;
  double sum = 0;
#pragma unroll 4
  for (std::int64_t k = first + lane * kPack; k < last; k += kLanes * kPack) {
    const T* const at = start + plan.summed.offset(k);
    if constexpr (kPack == 1) {
      sum += term(*at, plan.squares);
    } else {
      const Pack<T> pack = *reinterpret_cast<const Pack<T>*>(at);
      T part = T(0);
#pragma unroll
      for (int v = 0; v < kPack; ++v) {
        part += plan.squares ? pack.element[v] * pack.element[v] : pack.element[v];
      }
      sum += static_cast<double>(part);
    }
  }
  sum = combine<kLanes>(sum, Sum());
  if (lane == 0) put(plan, y, partial, result, part, sum);
}

// Neighbouring threads take neighbouring results.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_columns(const __grid_constant__ Plan plan, const T* x, T* y, double* partial) {
  __shared__ double sums[kRows][kColumns];
  const int column = static_cast<int>(threadIdx.x) % kColumns;
  const int row = static_cast<int>(threadIdx.x) / kColumns;
  const std::int64_t part = blockIdx.x % plan.parts;
  const std::int64_t result = blockIdx.x / plan.parts * kColumns + column;
  double sum = 0;
  if (result < plan.results) {
    const T* const start = x + plan.kept.offset(result);
    const std::int64_t first = part * plan.length;
    const std::int64_t last = first + plan.length < plan.count ? first + plan.length : plan.count;
#pragma unroll 4
    for (std::int64_t k = first + row; k < last; k += kRows) {
      sum += term(start[plan.summed.offset(k)], plan.squares);
    }
  }
  sums[row][column] = sum;
  __syncthreads();
  if (row != 0 || result >= plan.results) return;
  for (int other = 1; other < kRows; ++other) sum += sums[other][column];
  put(plan, y, partial, result, part, sum);
}

// Adds the parts of each sum, a warp per result.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_parts(std::int64_t results, std::int64_t parts, const double* partial, T* y) {
  const std::int64_t result = thread_number() / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (result >= results) return;
  double sum = 0;
#pragma unroll 4
  for (std::int64_t part = lane; part < parts; part += 32) sum += partial[part * results + result];
  sum = combine<32>(sum, Sum());
  if (lane == 0) y[result] = static_cast<T>(sum);
}

template <class T>
class Reduce final : public NodeKernel {
 public:
  Reduce(const ir::Graph& graph, const ir::Node& node, const Context&) : NodeKernel(graph, node) {
    const auto& attributes = std::get<ir::ReduceAttributes>(node.attributes);
    const Shape& shape = graph.type(node.inputs[0]).shape;
    const Shape strides = ir::dense_strides(shape);
    plan_.squares = attributes.kind == ir::ReduceKind::sum_of_squares;
    bool inner_summed = true;  // of the innermost axis of more than one element
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const bool summed =
          std::count(attributes.axes.begin(), attributes.axes.end(), static_cast<int>(axis)) > 0;
      (summed ? plan_.summed : plan_.kept).add(shape[axis], strides[axis]);
      (summed ? plan_.count : plan_.results) *= shape[axis];
      if (shape[axis] != 1) inner_summed = summed;
    }
    choose(inner_summed);
  }

  std::size_t workspace_bytes() const override {
    if (plan_.parts == 1) return 0;
    return static_cast<std::size_t>(plan_.parts * plan_.results) * sizeof(double);
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (plan_.results == 0) return;
    const T* const x = in<T>(pointers, 0);
    T* const y = out<T>(pointers, 0);
    double* const partial = plan_.parts > 1 ? workspace<double>(pointers) : nullptr;
    kernel_<<<blocks_, kThreads, 0, stream>>>(plan_, x, y, partial);
    check_launch("reduce");
    if (plan_.parts == 1) return;
    add_parts<T><<<blocks_for(plan_.results * 32), kThreads, 0, stream>>>(plan_.results,
                                                                          plan_.parts, partial, y);
    check_launch("reduce, second stage");
  }

 private:
  // Cuts sums into parts where the results alone would not fill a device.
  void cut(std::int64_t blocks, std::int64_t least_length) {
    const std::int64_t wanted = (kBlocksWanted + blocks - 1) / blocks;
    const std::int64_t most = std::max<std::int64_t>(1, plan_.count / least_length);
    const std::int64_t parts =
        std::clamp<std::int64_t>(wanted, 1, std::min<std::int64_t>(most, kBlocksWanted));
    plan_.length = (plan_.count + parts - 1) / parts;
    plan_.length = (plan_.length + least_length - 1) / least_length * least_length;
    plan_.parts = std::max<std::int64_t>(1, (plan_.count + plan_.length - 1) / plan_.length);
  }

  void choose(bool inner_summed) {
    plan_.length = plan_.count;
    if (plan_.results == 0) return;
    if (!inner_summed) {
      const std::int64_t groups = (plan_.results + kColumns - 1) / kColumns;
      cut(groups, 4 * kRows);
      kernel_ = sum_columns<T>;
      blocks_ = static_cast<unsigned>(groups * plan_.parts);
      return;
    }
    const Walk& summed = plan_.summed;
    const bool packs =
        summed.rank > 0 && summed.extents[summed.rank - 1].divisor % Pack<T>::kElements == 0;
    constexpr int kPack = Pack<T>::kElements;
    if (plan_.count <= 4) {
      kernel_ = sum_rows<T, 1, 1>;
      blocks_ = blocks_for(plan_.results);
    } else if (plan_.count <= 1024 && plan_.results >= 32) {
      kernel_ = packs ? sum_rows<T, 32, kPack> : sum_rows<T, 32, 1>;
      blocks_ = blocks_for(plan_.results * 32);
    } else {
      cut(plan_.results, 4 * kThreads * kPack);
      kernel_ = packs ? sum_rows<T, kThreads, kPack> : sum_rows<T, kThreads, 1>;
      blocks_ = static_cast<unsigned>(plan_.results * plan_.parts);
    }
  }

  Plan plan_;
  void (*kernel_)(Plan, const T*, T*, double*) = nullptr;
  unsigned blocks_ = 1;
};

}  // namespace

std::vector<KernelEntry> reduce_entries() {
  return {{ir::Op::reduce, supports_floating, make_floating<Reduce>, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
