// Gather, scatter and select, of 16 bits by their bits. Several values for one element are applied
// in row-major order, as in a loop: one thread owns each target, and no addition is atomic.
#include "backends/cuda/device/broadcast.h"
#include "backends/cuda/device/indices.h"
#include "backends/cuda/kernel/node_kernel.h"

namespace traingraph::cuda {
namespace {

// A tensor `whole` (O, D, I) around one axis, and the elements (o, k, i) that indices pick from it,
// with k below `picks`. Their (o, i) may cover less than the tensor's.
struct Plan {
  bool slices = false;  // one index per k, else one per picked element
  std::int64_t depth = 1, picks = 1;
  std::int64_t columns = 1;  // of the picked elements: their (o, i)
  std::int64_t whole_count = 1, picked_count = 1;
  std::int64_t whole_step = 1, picked_step = 1;  // along the axis
  // From a column's number to its start in the tensor and among the picked elements.
  Walk whole_column, picked_column;
  // From a picked element's number to its column's start in the tensor, and its k.
  Walk element_column;
  Divider by_step, by_picks;

  Plan(const Shape& whole, const Shape& picked, const Shape& indices, int axis) {
    const auto at = static_cast<std::size_t>(axis);
    const Shape whole_steps = ir::dense_strides(whole), picked_steps = ir::dense_strides(picked);
    slices = indices.size() == 1;
    depth = whole[at];
    picks = picked[at];
    whole_step = whole_steps[at];
    picked_step = picked_steps[at];
    by_step = Divider(picked_step);
    by_picks = Divider(picks);
    for (std::size_t k = 0; k < whole.size(); ++k) {
      whole_count *= whole[k];
      picked_count *= picked[k];
      element_column.add(picked[k], k == at ? 0 : whole_steps[k]);
      if (k == at) continue;
      columns *= picked[k];
      whole_column.add(picked[k], whole_steps[k]);
      picked_column.add(picked[k], picked_steps[k]);
    }
  }

  // The offset in the tensor of the element that the index of a picked element selects; -1 if the
  // index is out of range.
  __device__ std::int64_t source_of(std::int64_t element, const Indices& indices) const {
    std::int64_t at = element;
    if (slices) {
      std::int64_t above = by_step.divide(element);
      at = by_picks.split(above);
    }
    const std::int64_t place = indices[at];
    return place < 0 || place >= depth ? -1 : element_column.offset(element) + place * whole_step;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    pick(const __grid_constant__ Plan plan, Indices indices, const T* tensor, T* y) {
  const std::int64_t element = thread_number();
  if (element >= plan.picked_count) return;
  const std::int64_t source = plan.source_of(element, indices);
  y[element] = source < 0 ? T(0) : tensor[source];
}

// null source: zeros.
template <class T>
__global__ void __launch_bounds__(kThreads) copy(std::int64_t count, const T* from, T* to) {
  const std::int64_t element = thread_number();
  if (element < count) to[element] = from != nullptr ? from[element] : T(0);
}

// Indices of elements: a thread owns a column (o, i) of the tensor and iterates over its indices.
// Calls f(offset in the tensor, picked element).
template <class F>
__device__ void along_column(const Plan& plan, const Indices& indices, F&& f) {
  const std::int64_t column = thread_number();
  if (column >= plan.columns) return;
  const std::int64_t start = plan.whole_column.offset(column);
  const std::int64_t from = plan.picked_column.offset(column);
  for (std::int64_t k = 0; k < plan.picks; ++k) {
    const std::int64_t element = from + k * plan.picked_step;
    const std::int64_t place = indices[element];
    if (place >= 0 && place < plan.depth) f(start + place * plan.whole_step, element);
  }
}

// Indices of slices: a block owns slice blockIdx.x of the tensor, a thread one column of it. The
// block searches the indices together and calls f(k) for each k that selects this slice, in order.
template <class F>
__device__ void along_slice(const Plan& plan, const Indices& indices, F&& f) {
  __shared__ std::int64_t found[kThreads];
  __shared__ int counts[kThreads / 32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  constexpr int kAtOnce = 4;
  for (std::int64_t start = 0; start < plan.picks; start += kAtOnce * kThreads) {
    bool mine[kAtOnce];
    bool any = false;
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const std::int64_t k = start + u * kThreads + threadIdx.x;
      mine[u] = k < plan.picks && indices[k] == static_cast<std::int64_t>(blockIdx.x);
      any = any || mine[u];
    }
    if (__syncthreads_or(any ? 1 : 0) == 0) continue;  // most blocks find nothing
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const unsigned votes = __ballot_sync(0xffffffffu, mine[u]);
      __syncthreads();
      if (lane == 0) counts[warp] = __popc(votes);
      __syncthreads();
      int before = __popc(votes & ((1u << lane) - 1)), all = 0;
      for (int w = 0; w < kThreads / 32; ++w) {
        if (w < warp) before += counts[w];
        all += counts[w];
      }
      if (mine[u]) found[before] = start + u * kThreads + threadIdx.x;
      __syncthreads();
      for (int m = 0; m < all; ++m) f(found[m]);
    }
  }
}

// values, indices of elements → y, which already has a copy of the tensor.
template <class T>
__global__ void __launch_bounds__(kThreads)
    scatter_elements(const __grid_constant__ Plan plan, Indices indices, bool adds, const T* values,
                     T* y) {
  along_column(plan, indices, [&](std::int64_t offset, std::int64_t element) {
    y[offset] = adds ? y[offset] + values[element] : values[element];
  });
}

// values, indices of slices, tensor (null: zeros) → y. Grid: (slices of the tensor, columns /
// kThreads).
template <class T>
__global__ void __launch_bounds__(kThreads)
    scatter_slices(const __grid_constant__ Plan plan, Indices indices, bool adds, const T* values,
                   const T* tensor, T* y) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  const bool there = column < plan.columns;
  const std::int64_t at =
      there ? plan.whole_column.offset(column) + blockIdx.x * plan.whole_step : 0;
  const std::int64_t from = there ? plan.picked_column.offset(column) : 0;
  T value = there && tensor != nullptr ? tensor[at] : T(0);
  along_slice(plan, indices, [&](std::int64_t k) {
    const T next = there ? values[from + k * plan.picked_step] : T(0);
    value = adds ? value + next : next;
  });
  if (there) y[at] = value;
}

__global__ void __launch_bounds__(kThreads) no_writers(std::int64_t count, std::int64_t* writers) {
  const std::int64_t element = thread_number();
  if (element < count) writers[element] = -1;
}

__global__ void __launch_bounds__(kThreads)
    writers_of_elements(const __grid_constant__ Plan plan, Indices indices, std::int64_t* writers) {
  along_column(plan, indices,
               [&](std::int64_t offset, std::int64_t element) { writers[offset] = element; });
}

__global__ void __launch_bounds__(kThreads)
    writers_of_slices(const __grid_constant__ Plan plan, Indices indices, std::int64_t* writers) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  std::int64_t last = -1;
  along_slice(plan, indices, [&](std::int64_t k) { last = k; });
  if (column >= plan.columns) return;
  writers[plan.whole_column.offset(column) + blockIdx.x * plan.whole_step] =
      last < 0 ? -1 : plan.picked_column.offset(column) + last * plan.picked_step;
}

// dy, and the last writer of each element → dtensor, overwritten.
template <class T>
__global__ void __launch_bounds__(kThreads)
    unwritten(std::int64_t count, const std::int64_t* writers, const T* dy, T* dtensor) {
  const std::int64_t element = thread_number();
  if (element < count) dtensor[element] = writers[element] < 0 ? dy[element] : T(0);
}

// … → dvalues, overwritten.
template <class T>
__global__ void __launch_bounds__(kThreads)
    written(const __grid_constant__ Plan plan, Indices indices, const std::int64_t* writers,
            const T* dy, T* dvalues) {
  const std::int64_t element = thread_number();
  if (element >= plan.picked_count) return;
  const std::int64_t offset = plan.source_of(element, indices);
  dvalues[element] = offset >= 0 && writers[offset] == element ? dy[offset] : T(0);
}

template <class T>
class Indexing final : public NodeKernel {
 public:
  Indexing(const ir::Graph& graph, const ir::Node& node, const Context&)
      : NodeKernel(graph, node),
        op_(node.op),
        onto_zeros_(node.op == ir::Op::scatter && node.inputs.size() == 2),
        wide_(graph.type(node.inputs[1]).data_type == DataType::kInt64),
        plan_(whole(graph, node), picked(graph, node), graph.type(node.inputs[1]).shape,
              axis(node)) {
    if (op_ == ir::Op::scatter) adds_ = std::get<ir::ScatterAttributes>(node.attributes).adds;
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    const Indices indices{in<std::byte>(pointers, 1), wide_};
    if (op_ == ir::Op::gather) gather(pointers, indices, stream);
    if (op_ == ir::Op::scatter) scatter(pointers, indices, stream);
    if (op_ == ir::Op::scatter_gradient) scatter_gradient(pointers, indices, stream);
    check_launch(ir::name(op_));
  }

 private:
  static int axis(const ir::Node& node) {
    if (node.op == ir::Op::scatter) return std::get<ir::ScatterAttributes>(node.attributes).axis;
    return std::get<ir::AxisAttributes>(node.attributes).axis;
  }
  static const Shape& whole(const ir::Graph& graph, const ir::Node& node) {
    return graph.type(node.op == ir::Op::scatter ? node.outputs[0] : node.inputs[0]).shape;
  }
  static const Shape& picked(const ir::Graph& graph, const ir::Node& node) {
    return graph.type(node.op == ir::Op::scatter ? node.inputs[0] : node.outputs[0]).shape;
  }

  // One block per slice of the tensor and kThreads columns.
  dim3 slice_blocks() const {
    return dim3(static_cast<unsigned>(plan_.depth), blocks_for(plan_.columns));
  }

  void gather(Pointers pointers, const Indices& indices, cudaStream_t stream) const {
    if (plan_.picked_count == 0) return;
    pick<T><<<blocks_for(plan_.picked_count), kThreads, 0, stream>>>(
        plan_, indices, in<T>(pointers, 0), out<T>(pointers, 0));
  }

  void scatter(Pointers pointers, const Indices& indices, cudaStream_t stream) const {
    const T* const values = in<T>(pointers, 0);
    const T* const tensor = onto_zeros_ ? nullptr : in<T>(pointers, 2);
    T* const y = out<T>(pointers, 0);
    if (plan_.whole_count == 0) return;
    if (plan_.slices) {
      scatter_slices<T>
          <<<slice_blocks(), kThreads, 0, stream>>>(plan_, indices, adds_, values, tensor, y);
      return;
    }
    copy<T><<<blocks_for(plan_.whole_count), kThreads, 0, stream>>>(plan_.whole_count, tensor, y);
    scatter_elements<T>
        <<<blocks_for(plan_.columns), kThreads, 0, stream>>>(plan_, indices, adds_, values, y);
  }

  void scatter_gradient(Pointers pointers, const Indices& indices, cudaStream_t stream) const {
    const T* const dy = in<T>(pointers, 0);
    auto* const writers = out<std::int64_t>(pointers, 2);
    if (plan_.whole_count == 0) return;
    const unsigned blocks = blocks_for(plan_.whole_count);
    if (plan_.slices) {
      writers_of_slices<<<slice_blocks(), kThreads, 0, stream>>>(plan_, indices, writers);
    } else {
      no_writers<<<blocks, kThreads, 0, stream>>>(plan_.whole_count, writers);
      writers_of_elements<<<blocks_for(plan_.columns), kThreads, 0, stream>>>(plan_, indices,
                                                                              writers);
    }
    unwritten<T>
        <<<blocks, kThreads, 0, stream>>>(plan_.whole_count, writers, dy, out<T>(pointers, 1));
    if (plan_.picked_count == 0) return;
    written<T><<<blocks_for(plan_.picked_count), kThreads, 0, stream>>>(plan_, indices, writers, dy,
                                                                        out<T>(pointers, 0));
  }

  ir::Op op_;
  bool onto_zeros_;
  bool wide_;
  bool adds_ = false;
  Plan plan_;
};

// condition (one byte per element), x, y → y, each broadcast to the result's shape. Only the
// selected source is read; a null source is zero.
template <class T>
__global__ void __launch_bounds__(kThreads)
    take(std::int64_t count, const __grid_constant__ Broadcast<3> broadcast,
         const std::uint8_t* condition, const T* x, const T* y, T* result) {
  const std::int64_t element = thread_number();
  if (element >= count) return;
  const bool first = condition[broadcast.offset(0, element)] != 0;
  const T* const source = first ? x : y;
  result[element] = source != nullptr ? source[broadcast.offset(first ? 1 : 2, element)] : T(0);
}

template <class T>
class Select final : public NodeKernel {
 public:
  Select(const ir::Graph& graph, const ir::Node& node, const Context&)
      : NodeKernel(graph, node),
        count_(graph.type(node.outputs[0]).elements()),
        one_source_(node.inputs.size() == 2),
        where_not_(std::get<ir::SelectAttributes>(node.attributes).where_not) {
    std::vector<Shape> sources;
    for (ir::ValueId id : node.inputs) sources.push_back(graph.type(id).shape);
    if (one_source_) sources.push_back(sources[1]);
    broadcast_ = Broadcast<3>(graph.type(node.outputs[0]).shape, sources, 1);
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (count_ == 0) return;
    const T* const x = in<T>(pointers, 1);
    const T* const y = one_source_ ? nullptr : in<T>(pointers, 2);
    take<T><<<blocks_for(count_), kThreads, 0, stream>>>(
        count_, broadcast_, in<std::uint8_t>(pointers, 0), where_not_ ? y : x, where_not_ ? x : y,
        out<T>(pointers, 0));
    check_launch("select");
  }

 private:
  std::int64_t count_;
  bool one_source_, where_not_;
  Broadcast<3> broadcast_;
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const DataType indices = graph.type(node.inputs[1]).data_type;
  if (indices != DataType::kInt32 && indices != DataType::kInt64) {
    return Support::no(std::string("indices of data type ") + name(indices));
  }
  const ir::ValueId column = node.op == ir::Op::scatter ? node.inputs[0] : node.outputs[0];
  if (graph.type(column).elements() / kThreads > 65535 && graph.type(node.inputs[1]).rank() == 1 &&
      node.op != ir::Op::gather) {
    return Support::no("slices of more than 2^24 elements");
  }
  const auto* scatter = std::get_if<ir::ScatterAttributes>(&node.attributes);
  if (scatter != nullptr && scatter->adds) return supports_any_type(graph, node, node.outputs[0]);
  return supports_any_type(graph, node, node.inputs[1]);
}

Support supports_select(const ir::Graph& graph, const ir::Node& node) {
  return supports_any_type(graph, node, node.inputs[0]);
}

template <template <class> class K>
std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context& context) {
  if (ir::is_half(graph.type(node.outputs[0]).data_type)) {
    return std::make_unique<K<std::uint16_t>>(graph, node, context);
  }
  return make_of_type<K>(graph, node, context, node.outputs[0]);
}

}  // namespace

std::vector<KernelEntry> indexing_entries() {
  return {{ir::Op::gather, supports, make<Indexing>, nullptr, nullptr},
          {ir::Op::scatter, supports, make<Indexing>, nullptr, nullptr},
          {ir::Op::scatter_gradient, supports, make<Indexing>, nullptr, nullptr},
          {ir::Op::select, supports_select, make<Select>, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
