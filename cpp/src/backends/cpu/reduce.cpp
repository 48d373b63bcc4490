// Sums over any axes, and the count of all elements that are not finite. In memory order a tensor's
// axes, joined where neighbours are both kept or both summed, are at most (K0, R0, K1, R1, K2): K
// kept, R summed, absent ones of extent 1. Rows are runs of K2 elements; output groups are pairs
// (k0, k1). Work is cut by shape alone.
#include <algorithm>
#include <array>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <optional>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa/reduce.h"
#include "backends/cpu/isa_select.h"
#include "backends/cpu/parallel.h"
#include "ir/extents.h"

namespace traingraph::cpu {
namespace {

struct View {
  std::int64_t k0 = 1, r0 = 1, k1 = 1, r1 = 1, k2 = 1;
  std::int64_t out0 = 0, out1 = 0, out2 = 0;  // distances in the result, for k0, k1, k2

  std::int64_t elements() const { return k0 * r0 * k1 * r1 * k2; }
  std::int64_t groups() const { return k0 * k1; }
  std::int64_t rows() const { return r0 * r1; }
};

struct Run {
  std::int64_t extent;
  bool summed;
  std::int64_t out;  // distance in the result of one step
};

// Empty when the axes alternate more often.
std::optional<View> view_of(const Shape& shape, const ir::Layout& layout,
                            const std::vector<int>& axes) {
  Shape result = shape;
  for (int axis : axes) result[static_cast<std::size_t>(axis)] = 1;
  const Shape out = ir::dense_strides(result);
  std::vector<bool> summed(shape.size(), false);
  for (int axis : axes) summed[static_cast<std::size_t>(axis)] = true;
  std::vector<std::int64_t> inside(shape.size(), 1);
  std::vector<Run> runs;  // innermost first
  const auto memory = ir::physical_dimensions(shape, layout);
  for (auto it = memory.rbegin(); it != memory.rend(); ++it) {
    const auto axis = static_cast<std::size_t>(it->axis);
    const std::int64_t distance = out[axis] * inside[axis];
    inside[axis] *= it->extent;
    if (it->extent == 1) continue;
    const bool joins = !runs.empty() && runs.back().summed == summed[axis] &&
                       (summed[axis] || runs.back().out * runs.back().extent == distance);
    if (joins) {
      runs.back().extent *= it->extent;
    } else {
      runs.push_back({it->extent, summed[axis], distance});
    }
  }
  View view;
  struct Slot {
    std::int64_t* extent;
    std::int64_t* out;
  };
  std::int64_t ignored = 0;
  const std::array<Slot, 5> slots = {{{&view.k2, &view.out2},
                                      {&view.r1, &ignored},
                                      {&view.k1, &view.out1},
                                      {&view.r0, &ignored},
                                      {&view.k0, &view.out0}}};
  std::size_t next = 0;
  for (const Run& run : runs) {
    if (next < slots.size() && (next % 2 == 1) != run.summed) ++next;
    if (next >= slots.size() || (next % 2 == 1) != run.summed) return std::nullopt;
    *slots[next].extent = run.extent;
    *slots[next].out = run.out;
    ++next;
  }
  return view;
}

const ir::ReduceAttributes& attributes_of(const ir::Node& node) {
  return std::get<ir::ReduceAttributes>(node.attributes);
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const ir::Type& type = graph.type(node.inputs[0]);
  if (type.data_type != DataType::kFloat32) {
    return Support::no(std::string("data type ") + name(type.data_type) +
                       " (hand-written loops take float32)");
  }
  if (attributes_of(node).kind == ir::ReduceKind::not_finite) {
    if (graph.type(node.outputs[0]).elements() == 1) return {};
    return Support::no("counts along some of the axes (hand-written loops count all elements)");
  }
  if (!view_of(type.shape, {}, attributes_of(node).axes)) {
    return Support::no("kept and summed axes alternate too often");
  }
  return {};
}

// Any layout of the source will do; the result is plain.
LayoutChoice layouts(const ir::Graph& graph, const ir::Node& node) {
  const ir::Value& x = graph.value(node.inputs[0]);
  if (attributes_of(node).kind == ir::ReduceKind::not_finite) return {{x.layout}, {ir::Layout{}}};
  const bool usable = !ir::has_padding(x.type.shape, x.layout) &&
                      view_of(x.type.shape, x.layout, attributes_of(node).axes);
  return {{usable ? x.layout : ir::Layout{}}, {ir::Layout{}}};
}

constexpr std::int64_t kChunkElements = 32768;
constexpr std::int64_t kColumns = 512;

class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(const ir::Graph& graph, const ir::Node& node, const View& view)
      : view_(view),
        norm_(attributes_of(node).kind == ir::ReduceKind::norm),
        sums_(norm_ ? loops().reduce->sum_of_squares : loops().reduce->sum),
        x_(node.inputs[0]),
        y_(node.outputs[0]),
        workspace_(graph.values.size() + static_cast<std::size_t>(&node - graph.nodes.data())) {
    column_blocks_ = (view.k2 + kColumns - 1) / kColumns;
    const std::int64_t width = std::min(view.k2, kColumns);
    // Few outputs with many rows each are cut into chunks of rows.
    if (view.groups() * column_blocks_ < 8) {
      chunks_ = std::max<std::int64_t>(1, view.rows() * width / kChunkElements);
    }
    chunk_rows_ = (view.rows() + chunks_ - 1) / chunks_;
    chunks_ = std::max<std::int64_t>(1, (view.rows() + chunk_rows_ - 1) / chunk_rows_);
    threads_ = threads_for(nanoseconds_to_move(4.0 * static_cast<double>(view.elements())));
  }

  // Partial sums (chunks, groups, K2), float64.
  std::size_t workspace_bytes() const override {
    if (chunks_ == 1) return 0;
    return static_cast<std::size_t>(
        ir::product(ir::product(chunks_, view_.groups()),
                    ir::product(view_.k2, static_cast<std::int64_t>(sizeof(double)))));
  }

  void run(Pointers pointers) override {
    const float* x = reinterpret_cast<const float*>(pointers[x_]);
    float* y = reinterpret_cast<float*>(pointers[y_]);
    double* partial = reinterpret_cast<double*>(pointers[workspace_]);
    const std::int64_t tasks = view_.groups() * column_blocks_ * chunks_;
    // Small groups are cheaper than waking a thread for each.
    const std::int64_t per_part = std::max<std::int64_t>(
        1, kChunkElements * tasks / std::max<std::int64_t>(1, view_.elements()));
    parallel_for((tasks + per_part - 1) / per_part, threads_, [&](std::int64_t part) {
      const std::int64_t end = std::min(tasks, (part + 1) * per_part);
      for (std::int64_t task = part * per_part; task < end; ++task) run_task(task, x, y, partial);
    });
    if (chunks_ > 1) combine(partial, y);
  }

 private:
  void run_task(std::int64_t task, const float* x, float* y, double* partial) const {
    const std::int64_t chunk = task % chunks_;
    const std::int64_t block = task / chunks_ % column_blocks_;
    const std::int64_t group = task / chunks_ / column_blocks_;
    const std::int64_t first = block * kColumns;
    const std::int64_t width = std::min(kColumns, view_.k2 - first);
    double sums[kColumns];
    std::fill_n(sums, width, 0.0);
    const std::int64_t begin = chunk * chunk_rows_;
    const std::int64_t end = std::min(view_.rows(), begin + chunk_rows_);
    sum_rows(x + first, group, begin, end, width, sums);
    if (!all_in_reach(sums, width)) sum_rows_in_double(x + first, group, begin, end, width, sums);
    if (chunks_ > 1) {
      std::copy_n(sums, width, partial + (chunk * view_.groups() + group) * view_.k2 + first);
    } else {
      write(y, group, first, width, sums);
    }
  }

  // Whether float lanes could hold what was added: all of it, and no square that weighs was too
  // small.
  bool all_in_reach(const double* sums, std::int64_t width) const {
    const double least = norm_ ? 1e7 * FLT_MIN * static_cast<double>(chunk_rows_) : -FLT_MAX;
    return std::all_of(sums, sums + width,
                       [&](double sum) { return sum >= least && sum <= FLT_MAX; });
  }

  void sum_rows_in_double(const float* x, std::int64_t group, std::int64_t begin, std::int64_t end,
                          std::int64_t width, double* sums) const {
    std::fill_n(sums, width, 0.0);
    each_stretch(x, group, begin, end, [&](const float* from, std::int64_t rows) {
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t j = 0; j < width; ++j) {
          const auto value = static_cast<double>(from[r * view_.k2 + j]);
          sums[j] += norm_ ? value * value : value;
        }
      }
    });
  }

  // Rows [begin, end) of the summed extents of one group.
  void sum_rows(const float* x, std::int64_t group, std::int64_t begin, std::int64_t end,
                std::int64_t width, double* sums) const {
    each_stretch(x, group, begin, end, [&](const float* from, std::int64_t rows) {
      if (view_.k2 == 1) {
        sums[0] += sums_.row(from, rows);
      } else {
        sums_.columns(sums, from, rows, view_.k2, width);
      }
    });
  }

  // body(first row, rows) for rows that lie K2 elements apart.
  template <class Body>
  void each_stretch(const float* x, std::int64_t group, std::int64_t begin, std::int64_t end,
                    const Body& body) const {
    const std::int64_t panel = view_.r1 * view_.k2;  // what r1 and k2 span
    const float* base =
        x + group / view_.k1 * view_.r0 * view_.k1 * panel + group % view_.k1 * panel;
    while (begin < end) {
      const std::int64_t r0 = begin / view_.r1;
      const std::int64_t r1 = begin % view_.r1;
      const std::int64_t rows = std::min(end - begin, view_.r1 - r1);
      const float* from = base + r0 * view_.k1 * panel + r1 * view_.k2;
      body(from, rows);
      begin += rows;
    }
  }

  void write(float* y, std::int64_t group, std::int64_t first, std::int64_t width,
             const double* sums) const {
    float* to = y + group / view_.k1 * view_.out0 + group % view_.k1 * view_.out1;
    for (std::int64_t j = 0; j < width; ++j) {
      to[(first + j) * view_.out2] = static_cast<float>(norm_ ? std::sqrt(sums[j]) : sums[j]);
    }
  }

  // Adds the chunks up, in order.
  void combine(const double* partial, float* y) const {
    const std::int64_t groups = view_.groups();
    for (std::int64_t group = 0; group < groups; ++group) {
      for (std::int64_t first = 0; first < view_.k2; first += kColumns) {
        const std::int64_t width = std::min(kColumns, view_.k2 - first);
        double sums[kColumns] = {};
        for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
          const double* from = partial + (chunk * groups + group) * view_.k2 + first;
          for (std::int64_t j = 0; j < width; ++j) sums[j] += from[j];
        }
        write(y, group, first, width, sums);
      }
    }
  }

  View view_;
  bool norm_;
  SumLoops sums_;
  ir::ValueId x_, y_;
  std::size_t workspace_;
  std::int64_t column_blocks_ = 1;
  std::int64_t chunks_ = 1;
  std::int64_t chunk_rows_ = 1;
  int threads_ = 1;
};

// Elements that are NaN or infinite; padding is neither. Whole numbers are added in any order.
class CountKernel final : public Kernel {
 public:
  CountKernel(const ir::Graph& graph, const ir::Node& node)
      : x_(node.inputs[0]), y_(node.outputs[0]) {
    const ir::Value& x = graph.value(x_);
    elements_ = ir::padded_elements(x.type.shape, x.layout);
    threads_ = threads_for(nanoseconds_to_move(4.0 * static_cast<double>(elements_)));
  }

  void run(Pointers pointers) override {
    const float* const x = reinterpret_cast<const float*>(pointers[x_]);
    const auto count_of = loops().reduce->count_not_finite;
    std::atomic<std::int64_t> count{0};
    parallel_for((elements_ + kChunkElements - 1) / kChunkElements, threads_, [&](std::int64_t k) {
      const std::int64_t first = k * kChunkElements;
      count += count_of(x + first, std::min(kChunkElements, elements_ - first));
    });
    *reinterpret_cast<float*>(pointers[y_]) = static_cast<float>(count.load());
  }

 private:
  ir::ValueId x_, y_;
  std::int64_t elements_;
  int threads_;
};

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  if (attributes_of(node).kind == ir::ReduceKind::not_finite) {
    return std::make_unique<CountKernel>(graph, node);
  }
  const ir::Value& x = graph.value(node.inputs[0]);
  return std::make_unique<ReduceKernel>(graph, node,
                                        *view_of(x.type.shape, x.layout, attributes_of(node).axes));
}

}  // namespace

const std::vector<KernelEntry>& reduce_entries() {
  static const std::vector<KernelEntry> entries = {
      KernelEntry{ir::Op::reduce, supports, make, layouts, nullptr}};
  return entries;
}

}  // namespace traingraph::cpu
