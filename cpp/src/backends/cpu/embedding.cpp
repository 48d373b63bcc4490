// Rows of plain tables by index, their gradient by counted indices, and the limit of their norms.
#include <algorithm>
#include <cstring>

#include "backends/cpu/cpu.h"
#include "backends/cpu/parallel.h"
#include "runtime/numbers/row_limit.h"

namespace traingraph::cpu {
namespace {

// Rows of a part come to about as many elements.
constexpr std::int64_t kPartElements = 16384;

// What the three kernels share: the table (count, dimension), and indices of either integer type.
template <class T>
class TableKernel : public Kernel {
 public:
  TableKernel(const ir::Graph& graph, const ir::Node& node, ir::ValueId table, double bytes_moved)
      : count_(graph.type(table).shape[0]),
        dimension_(graph.type(table).shape[1]),
        picks_(graph.type(node.inputs[1]).elements()),
        rows_per_part_(std::max<std::int64_t>(1, kPartElements / dimension_)),
        threads_(threads_for(nanoseconds_to_move(bytes_moved))),
        x_(node.inputs[0]),
        indices_(node.inputs[1]),
        result_(node.outputs[0]),
        workspace_(graph.values.size() + static_cast<std::size_t>(&node - graph.nodes.data())),
        wide_(graph.type(indices_).data_type == DataType::kInt64) {}

 protected:
  static double bytes(std::int64_t elements) { return sizeof(T) * static_cast<double>(elements); }

  template <class F>
  void with_indices(Pointers pointers, F f) const {
    if (wide_) {
      f(reinterpret_cast<const std::int64_t*>(pointers[indices_]));
    } else {
      f(reinterpret_cast<const std::int32_t*>(pointers[indices_]));
    }
  }
  bool is_row(std::int64_t index) const { return index >= 0 && index < count_; }
  const T* x(Pointers pointers) const { return reinterpret_cast<const T*>(pointers[x_]); }
  T* result(Pointers pointers) const { return reinterpret_cast<T*>(pointers[result_]); }

  // f(k) for each k in [0, rows), several of them to a thread at once.
  template <class F>
  void for_rows(std::int64_t rows, const F& f) const {
    parallel_for((rows + rows_per_part_ - 1) / rows_per_part_, threads_, [&](std::int64_t part) {
      const std::int64_t end = std::min(rows, (part + 1) * rows_per_part_);
      for (std::int64_t k = part * rows_per_part_; k < end; ++k) f(k);
    });
  }

  std::int64_t count_, dimension_, picks_, rows_per_part_;
  int threads_;
  ir::ValueId x_, indices_, result_;
  std::size_t workspace_;
  bool wide_;
};

template <class T>
class Lookup final : public TableKernel<T> {
 public:
  Lookup(const ir::Graph& graph, const ir::Node& node)
      : TableKernel<T>(graph, node, node.inputs[0],
                       2 * this->bytes(graph.type(node.outputs[0]).elements())) {}

  void run(Pointers pointers) override {
    const T* const table = this->x(pointers);
    T* const rows = this->result(pointers);
    const std::size_t bytes = sizeof(T) * static_cast<std::size_t>(this->dimension_);
    this->with_indices(pointers, [&](const auto* indices) {
      this->for_rows(this->picks_, [&](std::int64_t k) {
        // Rows lie anywhere: the memory is asked for some of them ahead.
        const std::int64_t ahead = std::min(k + kAhead, this->picks_ - 1);
        const auto next = static_cast<std::int64_t>(indices[ahead]);
        if (this->is_row(next)) prefetch(table + next * this->dimension_, bytes);
        const auto row = static_cast<std::int64_t>(indices[k]);
        T* const to = rows + k * this->dimension_;
        if (this->is_row(row)) {
          std::memcpy(to, table + row * this->dimension_, bytes);
        } else {
          std::fill_n(to, this->dimension_, T(0));
        }
      });
    });
  }

 private:
  static constexpr std::int64_t kAhead = 4;

  static void prefetch(const T* row, std::size_t bytes) {
    const char* const at = reinterpret_cast<const char*>(row);
    for (std::size_t k = 0; k < std::min<std::size_t>(bytes, 1024); k += 64) {
      __builtin_prefetch(at + k);
    }
  }
};

// Picks are sorted by row, those of one row in their order: by counting.
template <class T>
class LookupGradient final : public TableKernel<T> {
 public:
  LookupGradient(const ir::Graph& graph, const ir::Node& node)
      : TableKernel<T>(graph, node, node.outputs[0],
                       this->bytes(graph.type(node.inputs[0]).elements()) +
                           this->bytes(graph.type(node.outputs[0]).elements())),
        attributes_(std::get<ir::EmbeddingAttributes>(node.attributes)) {}

  std::size_t workspace_bytes() const override {
    return sizeof(std::int64_t) * static_cast<std::size_t>(this->count_ + 1 + this->picks_);
  }

  void run(Pointers pointers) override {
    auto* const ends = reinterpret_cast<std::int64_t*>(pointers[this->workspace_]);
    std::int64_t* const order = ends + this->count_ + 1;
    this->with_indices(pointers, [&](const auto* indices) { sort(indices, ends, order); });
    const T* const dy = this->x(pointers);
    T* const table = this->result(pointers);
    const std::int64_t dimension = this->dimension_;
    this->for_rows(this->count_, [&](std::int64_t row) {
      T* const to = table + row * dimension;
      const std::int64_t first = row == 0 ? 0 : ends[row - 1], end = ends[row];
      if (first == end) {
        std::fill_n(to, dimension, T(0));
        return;
      }
      std::copy_n(dy + order[first] * dimension, dimension, to);
      for (std::int64_t k = first + 1; k < end; ++k) {
        const T* const from = dy + order[k] * dimension;
        for (std::int64_t i = 0; i < dimension; ++i) to[i] += from[i];
      }
      if (!attributes_.by_frequency) return;
      const T picks = static_cast<T>(end - first);
      for (std::int64_t i = 0; i < dimension; ++i) to[i] /= picks;
    });
  }

 private:
  // Into `order` the picks of row 0, of row 1, …; those of a row end before ends[row].
  template <class Index>
  void sort(const Index* indices, std::int64_t* ends, std::int64_t* order) const {
    const auto counts = [&](std::int64_t row) {
      return this->is_row(row) && row != attributes_.padding;
    };
    std::fill_n(ends, this->count_ + 1, 0);
    for (std::int64_t k = 0; k < this->picks_; ++k) {
      const auto row = static_cast<std::int64_t>(indices[k]);
      if (counts(row)) ++ends[row + 1];
    }
    for (std::int64_t row = 0; row < this->count_; ++row) ends[row + 1] += ends[row];
    for (std::int64_t k = 0; k < this->picks_; ++k) {
      const auto row = static_cast<std::int64_t>(indices[k]);
      if (counts(row)) order[ends[row]++] = k;
    }
  }

  ir::EmbeddingAttributes attributes_;
};

// In place where the result has the table's address.
template <class T>
class RowLimit final : public TableKernel<T> {
 public:
  RowLimit(const ir::Graph& graph, const ir::Node& node)
      : TableKernel<T>(graph, node, node.inputs[0],
                       2 * this->bytes(graph.type(node.outputs[0]).elements())),
        attributes_(std::get<ir::RowLimitAttributes>(node.attributes)) {}

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(this->count_); }

  void run(Pointers pointers) override {
    const T* const table = this->x(pointers);
    T* const limited = this->result(pointers);
    auto* const picked = reinterpret_cast<std::uint8_t*>(pointers[this->workspace_]);
    std::fill_n(picked, this->count_, 0);
    this->with_indices(pointers, [&](const auto* indices) {
      for (std::int64_t k = 0; k < this->picks_; ++k) {
        if (this->is_row(indices[k])) picked[indices[k]] = 1;
      }
    });
    this->for_rows(this->count_, [&](std::int64_t row) {
      const std::int64_t first = row * this->dimension_;
      if (limited != table) std::copy_n(table + first, this->dimension_, limited + first);
      if (picked[row] != 0) limit_row(attributes_, this->dimension_, limited + first);
    });
  }

 private:
  ir::RowLimitAttributes attributes_;
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const DataType type = graph.type(node.inputs[0]).data_type;
  if (type == DataType::kFloat32 || type == DataType::kFloat64) return {};
  return Support::no("hand-written loops over tables take float32 and float64");
}

template <template <class> class K>
std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  if (graph.type(node.inputs[0]).data_type == DataType::kFloat64) {
    return std::make_unique<K<double>>(graph, node);
  }
  return std::make_unique<K<float>>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& embedding_entries() {
  static const std::vector<KernelEntry> entries = {
      KernelEntry{ir::Op::embedding, supports, make<Lookup>, nullptr, nullptr},
      KernelEntry{ir::Op::embedding_gradient, supports, make<LookupGradient>, nullptr, nullptr},
      KernelEntry{ir::Op::limit_rows, supports, make<RowLimit>, nullptr, nullptr}};
  return entries;
}

}  // namespace traingraph::cpu
