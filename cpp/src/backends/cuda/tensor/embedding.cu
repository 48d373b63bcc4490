// Embedding tables: lookup of rows, the gradient by sorted indices, and the limit of row norms.
#include <cub/device/device_radix_sort.cuh>

#include "backends/cuda/device/device.h"
#include "backends/cuda/device/indices.h"
#include "backends/cuda/kernel/node_kernel.h"

namespace traingraph::cuda {
namespace {

struct Table {
  std::int64_t count, dimension, picks;

  __device__ bool is_row(std::int64_t index) const { return index >= 0 && index < count; }
};

// A thread moves one element of type P. A row has `packs` of them.
template <class P>
__global__ void __launch_bounds__(kThreads)
    look_up(Table table, const __grid_constant__ Divider packs, Indices indices, const P* rows,
            P* result) {
  const std::int64_t element = thread_number();
  std::int64_t pick = element;
  const std::int64_t column = packs.split(pick);
  if (pick >= table.picks) return;
  const std::int64_t row = indices[pick];
  result[element] = table.is_row(row) ? rows[row * packs.divisor + column] : P{};
}

// Sort keys of the indices: their rows, and `count` for indices without a gradient.
__global__ void __launch_bounds__(kThreads)
    key_picks(Table table, std::int64_t padding, Indices indices, int* keys, int* picks) {
  const std::int64_t k = thread_number();
  if (k >= table.picks) return;
  const std::int64_t row = indices[k];
  keys[k] = static_cast<int>(table.is_row(row) && row != padding ? row : table.count);
  picks[k] = static_cast<int>(k);
}

template <class T>
__global__ void __launch_bounds__(kThreads) clear(std::int64_t count, T* of_rows) {
  const std::int64_t row = thread_number();
  if (row < count) of_rows[row] = T{};
}

// The range of each row among the sorted indices.
__global__ void __launch_bounds__(kThreads) find_runs(Table table, const int* keys, int2* runs) {
  const std::int64_t k = thread_number();
  if (k >= table.picks) return;
  const int row = keys[k];
  if (row == table.count) return;
  if (k == 0 || keys[k - 1] != row) runs[row].x = static_cast<int>(k);
  if (k + 1 == table.picks || keys[k + 1] != row) runs[row].y = static_cast<int>(k + 1);
}

// A thread adds one element of one row, in the order of the indices.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_runs(Table table, const __grid_constant__ Divider by_dimension, bool by_frequency,
             const int2* runs, const int* picks, const T* dy, T* result) {
  const std::int64_t element = thread_number();
  std::int64_t row = element;
  const std::int64_t column = by_dimension.split(row);
  if (row >= table.count) return;
  const int2 run = runs[row];
  T sum = 0;
  for (int k = run.x; k < run.y; ++k) sum += dy[picks[k] * table.dimension + column];
  if (by_frequency && run.y > run.x) sum /= static_cast<T>(run.y - run.x);
  result[element] = sum;
}

__global__ void __launch_bounds__(kThreads)
    mark_picks(Table table, Indices indices, std::uint8_t* is_picked) {
  const std::int64_t k = thread_number();
  if (k < table.picks && table.is_row(indices[k])) is_picked[indices[k]] = 1;
}

// One warp per row. The sum propagates NaN.
template <class T>
__global__ void __launch_bounds__(kThreads)
    limit(Table table, ir::RowLimitAttributes a, const std::uint8_t* is_picked, const T* from,
          T* to) {
  const std::int64_t row = thread_number() / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (row >= table.count) return;
  const T* const x = from + row * table.dimension;
  T* const y = to + row * table.dimension;
  double scale = 1;
  bool scales = false;
  if (is_picked[row] != 0) {
    double largest = 0, nan = 0;
    for (std::int64_t k = lane; k < table.dimension; k += 32) {
      const double size = ::fabs(static_cast<double>(x[k]));
      if (size != size) nan = size;
      largest = ::fmax(largest, size);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
      largest = ::fmax(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
      nan += __shfl_xor_sync(0xffffffffu, nan, distance);
    }
    double norm = largest + nan;
    const bool has_powers = norm > 0 && !::isinf(norm) && !::isinf(a.order);
    if (has_powers) {
      double sum = 0;
      for (std::int64_t k = lane; k < table.dimension; k += 32) {
        const double part = ::fabs(static_cast<double>(x[k])) / largest;
        sum += a.order == 2 ? part * part : a.order == 1 ? part : ::pow(part, a.order);
      }
      for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
      }
      norm = largest * ::pow(sum, 1 / a.order);
    }
    scales = norm > a.maximum;
    if (scales) scale = a.maximum / (norm + 1e-7);
  }
  if (!scales && x == y) return;
  for (std::int64_t k = lane; k < table.dimension; k += 32) {
    y[k] = scales ? static_cast<T>(static_cast<double>(x[k]) * scale) : x[k];
  }
}

class TableKernel : public NodeKernel {
 public:
  TableKernel(const ir::Graph& graph, const ir::Node& node, ir::ValueId table)
      : NodeKernel(graph, node),
        table_{graph.type(table).shape[0], graph.type(table).shape[1],
               graph.type(node.inputs[1]).elements()},
        wide_(graph.type(node.inputs[1]).data_type == DataType::kInt64) {}

 protected:
  Indices indices(Pointers pointers) const { return {in<std::byte>(pointers, 1), wide_}; }

  Table table_;
  bool wide_;
};

template <class T>
class Lookup final : public TableKernel {
 public:
  Lookup(const ir::Graph& graph, const ir::Node& node, const Context&)
      : TableKernel(graph, node, node.inputs[0]) {}

  void launch(Pointers pointers, cudaStream_t stream) const override {
    const std::int64_t bytes = table_.dimension * static_cast<std::int64_t>(sizeof(T));
    if (bytes % static_cast<std::int64_t>(sizeof(int4)) == 0) {
      move<int4>(bytes, pointers, stream);
    } else {
      move<T>(bytes, pointers, stream);
    }
    check_launch("embedding");
  }

 private:
  template <class P>
  void move(std::int64_t bytes, Pointers pointers, cudaStream_t stream) const {
    const std::int64_t packs = bytes / static_cast<std::int64_t>(sizeof(P));
    look_up<P><<<blocks_for(table_.picks * packs), kThreads, 0, stream>>>(
        table_, Divider(packs), indices(pointers), in<P>(pointers, 0), out<P>(pointers, 0));
  }
};

template <class T>
class LookupGradient final : public TableKernel {
 public:
  LookupGradient(const ir::Graph& graph, const ir::Node& node, const Context&)
      : TableKernel(graph, node, node.outputs[0]),
        attributes_(std::get<ir::EmbeddingAttributes>(node.attributes)),
        by_dimension_(table_.dimension) {
    while ((std::int64_t{1} << bits_) <= table_.count) ++bits_;
    check(sort(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr), "sorting of indices");
  }

  std::size_t workspace_bytes() const override { return picks_at(4) + sort_bytes_; }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    std::byte* const base = workspace<std::byte>(pointers);
    auto* const runs = reinterpret_cast<int2*>(base);
    int* parts[4];
    for (std::size_t k = 0; k < 4; ++k) parts[k] = reinterpret_cast<int*>(base + picks_at(k));
    const auto [keys, sorted_keys, picks, sorted_picks] = parts;
    key_picks<<<blocks_for(table_.picks), kThreads, 0, stream>>>(table_, attributes_.padding,
                                                                 indices(pointers), keys, picks);
    check(sort(base + picks_at(4), keys, sorted_keys, picks, sorted_picks, stream),
          "sorting of indices");
    clear<<<blocks_for(table_.count), kThreads, 0, stream>>>(table_.count, runs);
    find_runs<<<blocks_for(table_.picks), kThreads, 0, stream>>>(table_, sorted_keys, runs);
    add_runs<T><<<blocks_for(table_.count * table_.dimension), kThreads, 0, stream>>>(
        table_, by_dimension_, attributes_.by_frequency, runs, sorted_picks, in<T>(pointers, 0),
        out<T>(pointers, 0));
    check_launch("gradient of an embedding");
  }

 private:
  static std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  // The workspace: the range of each row; four arrays with one number per index; the scratch memory
  // of the sort.
  std::size_t picks_at(std::size_t k) const {
    return aligned(sizeof(int2) * static_cast<std::size_t>(table_.count)) +
           k * aligned(sizeof(int) * static_cast<std::size_t>(table_.picks));
  }

  // A stable sort, so that the indices of a row keep their order. Without memory it computes
  // sort_bytes_.
  cudaError_t sort(void* memory, const int* keys, int* sorted_keys, const int* picks,
                   int* sorted_picks, cudaStream_t stream) const {
    return cub::DeviceRadixSort::SortPairs(memory, sort_bytes_, keys, sorted_keys, picks,
                                           sorted_picks, static_cast<int>(table_.picks), 0, bits_,
                                           stream);
  }

  ir::EmbeddingAttributes attributes_;
  Divider by_dimension_;
  int bits_ = 1;
  mutable std::size_t sort_bytes_ = 0;  // cub writes it when asked for the size
};

// In place if the result has the table's address.
template <class T>
class RowLimit final : public TableKernel {
 public:
  RowLimit(const ir::Graph& graph, const ir::Node& node, const Context&)
      : TableKernel(graph, node, node.inputs[0]),
        attributes_(std::get<ir::RowLimitAttributes>(node.attributes)) {}

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(table_.count); }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    auto* const is_picked = workspace<std::uint8_t>(pointers);
    clear<<<blocks_for(table_.count), kThreads, 0, stream>>>(table_.count, is_picked);
    mark_picks<<<blocks_for(table_.picks), kThreads, 0, stream>>>(table_, indices(pointers),
                                                                  is_picked);
    limit<T><<<blocks_for(table_.count * 32), kThreads, 0, stream>>>(
        table_, attributes_, is_picked, in<T>(pointers, 0), out<T>(pointers, 0));
    check_launch("limit of rows");
  }

 private:
  ir::RowLimitAttributes attributes_;
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - 1;
  const DataType type = graph.type(node.inputs[0]).data_type;
  if (type != DataType::kFloat32 && type != DataType::kFloat64) {
    return Support::no(std::string("tables of data type ") + name(type));
  }
  const ir::ValueId table =
      node.op == ir::Op::embedding_gradient ? node.outputs[0] : node.inputs[0];
  if (graph.type(table).shape[0] > kMost || graph.type(node.inputs[1]).elements() > kMost) {
    return Support::no("more than 2^31 rows or indices");
  }
  return {};
}

}  // namespace

std::vector<KernelEntry> embedding_entries() {
  return {{ir::Op::embedding, supports, make_floating<Lookup>, nullptr, nullptr},
          {ir::Op::embedding_gradient, supports, make_floating<LookupGradient>, nullptr, nullptr},
          {ir::Op::limit_rows, supports, make_floating<RowLimit>, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
