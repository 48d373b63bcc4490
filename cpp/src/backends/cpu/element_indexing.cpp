// Elements of any type by index along one axis: picked one by one, and values that overwrite, with
// their gradient. Parts differ in the place beside the axis, so that no two write to one element.
#include <algorithm>
#include <cstring>

#include "backends/cpu/cpu.h"
#include "backends/cpu/element_size.h"
#include "backends/cpu/parallel.h"

namespace traingraph::cpu {
namespace {

// What indices of slices or of elements pick from a tensor (O, D, I) around the axis: (o, k, i). Of
// an index per element, o and i may cover less than the tensor's.
class Picks {
 public:
  Picks(const ir::Graph& graph, ir::ValueId tensor, ir::ValueId indices, ir::ValueId picked,
        int axis)
      : indices_(indices),
        wide_(graph.type(indices).data_type == DataType::kInt64),
        slices_(graph.type(indices).rank() == 1 && graph.type(tensor).rank() != 1) {
    const Shape& whole = graph.type(tensor).shape;
    const Shape& part = graph.type(picked).shape;
    const Shape strides = ir::dense_strides(whole);
    for (std::size_t k = 0; k < whole.size(); ++k) {
      const int at = static_cast<int>(k);
      (at < axis ? outer_ : at == axis ? picks_ : inner_) *= part[k];
      if (at != axis) (at < axis ? outer_axes_ : inner_axes_).push_back({part[k], strides[k]});
    }
    // Neighbours here are neighbours in the tensor.
    if (std::equal(part.begin() + axis + 1, part.end(), whole.begin() + axis + 1)) {
      inner_axes_.clear();
    }
    depth_ = whole[static_cast<std::size_t>(axis)];
    step_ = strides[static_cast<std::size_t>(axis)];
    columns_ = std::max(kLeastColumns, kPartElements / std::max<std::int64_t>(1, picks_));
    columns_ = std::min(columns_, std::max<std::int64_t>(1, inner_));
    blocks_ = (inner_ + columns_ - 1) / columns_;
    const double bytes = 8.0 * static_cast<double>(outer_ * picks_ * inner_);
    threads_ = threads_for(2 * nanoseconds_to_move(bytes));
  }

  // visit(picked element, offset in the tensor or -1) in row-major order within a part. What two
  // parts visit differs in o or i, so that it lies apart in the tensor.
  template <class Visit>
  void for_each(Pointers pointers, const Visit& visit) const {
    if (wide_) {
      visit_all(reinterpret_cast<const std::int64_t*>(pointers[indices_]), visit);
    } else {
      visit_all(reinterpret_cast<const std::int32_t*>(pointers[indices_]), visit);
    }
  }

 private:
  static constexpr std::int64_t kPartElements = 8192;
  static constexpr std::int64_t kLeastColumns = 256;  // each row of them is on pages of its own
  struct Axis {
    std::int64_t extent, stride;
  };

  static std::int64_t offset_of(std::int64_t position, const std::vector<Axis>& axes) {
    std::int64_t offset = 0;
    for (std::size_t k = axes.size(); k-- > 0;) {
      offset += position % axes[k].extent * axes[k].stride;
      position /= axes[k].extent;
    }
    return offset;
  }

  template <class Index, class Visit>
  void visit_all(const Index* indices, const Visit& visit) const {
    parallel_for(outer_ * blocks_, threads_, [&](std::int64_t part) {
      const std::int64_t o = part / blocks_, first = part % blocks_ * columns_;
      const std::int64_t end = std::min(inner_, first + columns_);
      const std::int64_t at_o = offset_of(o, outer_axes_);
      for (std::int64_t k = 0; k < picks_; ++k) {
        std::int64_t element = (o * picks_ + k) * inner_ + first;
        for (std::int64_t i = first; i < end; ++i, ++element) {
          const auto index = static_cast<std::int64_t>(indices[slices_ ? k : element]);
          const bool inside = index >= 0 && index < depth_;
          const std::int64_t at_i = inner_axes_.empty() ? i : offset_of(i, inner_axes_);
          visit(element, inside ? at_o + index * step_ + at_i : -1);
        }
      }
    });
  }

  ir::ValueId indices_;
  bool wide_, slices_;
  std::int64_t outer_ = 1, picks_ = 1, inner_ = 1;
  // Of what is picked, with the tensor's strides; none inside where all of it is picked.
  std::vector<Axis> outer_axes_, inner_axes_;
  std::int64_t depth_ = 1, step_ = 1;      // of the axis in the tensor
  std::int64_t columns_ = 1, blocks_ = 1;  // elements of `inner_` in a part, and such parts
  int threads_ = 1;
};

// T: unsigned integers of the elements' size.
template <class T>
class GatherElements final : public Kernel {
 public:
  GatherElements(const ir::Graph& graph, const ir::Node& node)
      : x_(node.inputs[0]),
        result_(node.outputs[0]),
        picks_(graph, x_, node.inputs[1], result_,
               std::get<ir::AxisAttributes>(node.attributes).axis) {}

  void run(Pointers pointers) override {
    const T* const x = reinterpret_cast<const T*>(pointers[x_]);
    T* const y = reinterpret_cast<T*>(pointers[result_]);
    picks_.for_each(pointers, [&](std::int64_t element, std::int64_t offset) {
      y[element] = offset < 0 ? T(0) : x[offset];
    });
  }

 private:
  ir::ValueId x_, result_;
  Picks picks_;
};

// values, indices [, tensor, else zeros] → y: the last value for a place stays.
template <class T>
class ScatterOver final : public Kernel {
 public:
  ScatterOver(const ir::Graph& graph, const ir::Node& node)
      : values_(node.inputs[0]),
        onto_(node.inputs.size() > 2 ? node.inputs[2] : ir::kNone),
        result_(node.outputs[0]),
        bytes_(ir::storage_bytes(graph.type(result_), {})),
        picks_(graph, result_, node.inputs[1], values_,
               std::get<ir::ScatterAttributes>(node.attributes).axis) {}

  void run(Pointers pointers) override {
    const T* const values = reinterpret_cast<const T*>(pointers[values_]);
    T* const y = reinterpret_cast<T*>(pointers[result_]);
    if (onto_ == ir::kNone) {
      std::memset(y, 0, bytes_);
    } else {
      std::memcpy(y, pointers[onto_], bytes_);
    }
    picks_.for_each(pointers, [&](std::int64_t element, std::int64_t offset) {
      if (offset >= 0) y[offset] = values[element];
    });
  }

 private:
  ir::ValueId values_, onto_, result_;
  std::size_t bytes_;
  Picks picks_;
};

// dy, indices → dvalues and dtensor, both overwritten, and who wrote each element of the tensor.
template <class T>
class ScatterGradient final : public Kernel {
 public:
  ScatterGradient(const ir::Graph& graph, const ir::Node& node)
      : dy_(node.inputs[0]),
        outputs_(node.outputs),
        elements_(graph.type(dy_).elements()),
        picks_(graph, dy_, node.inputs[1], outputs_[0],
               std::get<ir::AxisAttributes>(node.attributes).axis),
        threads_(threads_for(nanoseconds_to_move(static_cast<double>(2 * sizeof(T) + 8) *
                                                 static_cast<double>(elements_)))) {}

  void run(Pointers pointers) override {
    const T* const dy = reinterpret_cast<const T*>(pointers[dy_]);
    T* const dvalues = reinterpret_cast<T*>(pointers[outputs_[0]]);
    T* const dtensor = reinterpret_cast<T*>(pointers[outputs_[1]]);
    auto* const writers = reinterpret_cast<std::int64_t*>(pointers[outputs_[2]]);
    for_parts([&](std::int64_t begin, std::int64_t end) {
      std::fill(writers + begin, writers + end, std::int64_t{-1});
    });
    picks_.for_each(pointers, [&](std::int64_t element, std::int64_t offset) {
      if (offset >= 0) writers[offset] = element;
    });
    for_parts([&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) dtensor[k] = writers[k] < 0 ? dy[k] : T(0);
    });
    picks_.for_each(pointers, [&](std::int64_t element, std::int64_t offset) {
      dvalues[element] = offset >= 0 && writers[offset] == element ? dy[offset] : T(0);
    });
  }

 private:
  // f(begin, end) over parts of the tensor.
  template <class F>
  void for_parts(const F& f) const {
    constexpr std::int64_t kPartElements = 16384;
    parallel_for((elements_ + kPartElements - 1) / kPartElements, threads_, [&](std::int64_t part) {
      f(part * kPartElements, std::min(elements_, (part + 1) * kPartElements));
    });
  }

  ir::ValueId dy_;
  std::vector<ir::ValueId> outputs_;
  std::int64_t elements_;
  Picks picks_;
  int threads_;
};

Support supports_scatter(const ir::Graph&, const ir::Node& node) {
  if (!std::get<ir::ScatterAttributes>(node.attributes).adds) return {};
  return Support::no("hand-written loops over elements add no values");
}

}  // namespace

const std::vector<KernelEntry>& element_indexing_entries() {
  static const std::vector<KernelEntry> entries = {
      {ir::Op::gather, supports_any_type, make_by_size<GatherElements>},
      {ir::Op::scatter, supports_scatter, make_by_size<ScatterOver>},
      {ir::Op::scatter_gradient, supports_any_type, make_by_size<ScatterGradient>}};
  return entries;
}

}  // namespace traingraph::cpu
