// Slices by index along one axis: picked as they are, whatever their type, and added up in float32.
// Indices of elements and values that overwrite are in element_indexing.cpp, other sums are the
// reference's.
#include <algorithm>
#include <cstring>

#include "backends/cpu/cpu.h"
#include "backends/cpu/parallel.h"

namespace traingraph::cpu {
namespace {

// A tensor (O, D, I) around the axis, and what indices pick from it: (O, picks, I).
struct Slices {
  std::int64_t outer = 1, depth = 1, inner = 1, picks = 1;

  Slices(const Shape& whole, const Shape& indices, int axis) : picks(indices[0]) {
    for (std::size_t k = 0; k < whole.size(); ++k) {
      const int at = static_cast<int>(k);
      (at < axis ? outer : at == axis ? depth : inner) *= whole[k];
    }
  }
};

Support supports_slices(const ir::Graph& graph, ir::ValueId tensor, ir::ValueId indices) {
  if (graph.type(indices).rank() == 1 && graph.type(tensor).rank() != 1) return {};
  return Support::no("hand-written loops take indices of slices");
}

class SliceKernel : public Kernel {
 public:
  SliceKernel(const ir::Graph& graph, const ir::Node& node, ir::ValueId tensor, int axis)
      : slices_(graph.type(tensor).shape, graph.type(node.inputs[1]).shape, axis),
        x_(node.inputs[0]),
        indices_(node.inputs[1]),
        result_(node.outputs[0]),
        wide_(graph.type(indices_).data_type == DataType::kInt64),
        bytes_(element_bytes(graph.type(x_).data_type)) {
    const double moved =
        static_cast<double>(graph.type(x_).elements() + graph.type(result_).elements()) *
        static_cast<double>(bytes_);
    threads_ = threads_for(nanoseconds_to_move(moved));
  }

 protected:
  // f(index of pick k) for either type of index.
  template <class F>
  void with_indices(Pointers pointers, F f) const {
    if (wide_) {
      f(reinterpret_cast<const std::int64_t*>(pointers[indices_]));
    } else {
      f(reinterpret_cast<const std::int32_t*>(pointers[indices_]));
    }
  }

  // One outside picks zeros, and nothing is added for it.
  bool is_slice(std::int64_t index) const { return index >= 0 && index < slices_.depth; }

  Slices slices_;
  ir::ValueId x_, indices_, result_;
  bool wide_;
  std::size_t bytes_;
  int threads_ = 1;
};

// Neighbours that are picked one after another, as margins and parts are, move together.
class Gather final : public SliceKernel {
 public:
  Gather(const ir::Graph& graph, const ir::Node& node)
      : SliceKernel(graph, node, node.inputs[0],
                    std::get<ir::AxisAttributes>(node.attributes).axis),
        workspace_(graph.values.size() + static_cast<std::size_t>(&node - graph.nodes.data())) {}

  std::size_t workspace_bytes() const override {
    return sizeof(Stretch) * static_cast<std::size_t>(slices_.picks);
  }

  void run(Pointers pointers) override {
    auto* const stretches = reinterpret_cast<Stretch*>(pointers[workspace_]);
    with_indices(pointers, [&](const auto* indices) {
      const std::int64_t count = find_stretches(indices, stretches);
      const bool is_long = slices_.inner > 1 || slices_.picks >= 8 * count;
      parallel_for(slices_.outer, threads_, [&](std::int64_t o) {
        const std::byte* const from = pointers[x_] + offset(o * slices_.depth);
        std::byte* const to = pointers[result_] + offset(o * slices_.picks);
        if (is_long) return copy(stretches, count, from, to);
        switch (bytes_) {
          case 1:
            return pick<std::uint8_t>(indices, from, to);
          case 2:
            return pick<std::uint16_t>(indices, from, to);
          case 4:
            return pick<std::uint32_t>(indices, from, to);
          default:
            return pick<std::uint64_t>(indices, from, to);
        }
      });
    });
  }

 private:
  // So many slices from `from` on are picked from pick `to` on; -1: zeros.
  struct Stretch {
    std::int64_t from, to, count;
  };

  std::int64_t offset(std::int64_t slice) const {
    return slice * slices_.inner * static_cast<std::int64_t>(bytes_);
  }

  template <class Index>
  std::int64_t find_stretches(const Index* indices, Stretch* stretches) const {
    std::int64_t count = 0;
    for (std::int64_t k = 0; k < slices_.picks; ++k) {
      const auto index = static_cast<std::int64_t>(indices[k]);
      const std::int64_t from = is_slice(index) ? index : -1;
      Stretch* const last = count > 0 ? stretches + count - 1 : nullptr;
      if (last != nullptr && from >= 0 && last->from >= 0 && from == last->from + last->count) {
        ++last->count;
      } else {
        stretches[count++] = {from, k, 1};
      }
    }
    return count;
  }

  void copy(const Stretch* stretches, std::int64_t count, const std::byte* from,
            std::byte* to) const {
    for (std::int64_t k = 0; k < count; ++k) {
      const Stretch& s = stretches[k];
      const auto bytes = static_cast<std::size_t>(offset(s.count));
      if (s.from >= 0) {
        std::memcpy(to + offset(s.to), from + offset(s.from), bytes);
      } else {
        std::memset(to + offset(s.to), 0, bytes);
      }
    }
  }

  // Slices of one element.
  template <class T, class Index>
  void pick(const Index* indices, const std::byte* from, std::byte* to) const {
    const T* const x = reinterpret_cast<const T*>(from);
    T* const y = reinterpret_cast<T*>(to);
    for (std::int64_t k = 0; k < slices_.picks; ++k) {
      y[k] = is_slice(indices[k]) ? x[indices[k]] : T(0);
    }
  }

  std::size_t workspace_;
};

// Values added to a tensor, or to zeros, in the order of their indices.
class ScatterAdd final : public SliceKernel {
 public:
  ScatterAdd(const ir::Graph& graph, const ir::Node& node)
      : SliceKernel(graph, node, node.outputs[0],
                    std::get<ir::ScatterAttributes>(node.attributes).axis),
        onto_(node.inputs.size() > 2 ? node.inputs[2] : ir::kNone) {}

  void run(Pointers pointers) override {
    const std::int64_t count = slices_.depth * slices_.inner;
    with_indices(pointers, [&](const auto* indices) {
      parallel_for(slices_.outer, threads_, [&](std::int64_t o) {
        const float* values =
            reinterpret_cast<const float*>(pointers[x_]) + o * slices_.picks * slices_.inner;
        float* const y = reinterpret_cast<float*>(pointers[result_]) + o * count;
        if (onto_ == ir::kNone) {
          std::fill_n(y, count, 0.0f);
        } else {
          std::copy_n(reinterpret_cast<const float*>(pointers[onto_]) + o * count, count, y);
        }
        for (std::int64_t k = 0; k < slices_.picks; ++k, values += slices_.inner) {
          if (!is_slice(indices[k])) continue;
          float* const to = y + static_cast<std::int64_t>(indices[k]) * slices_.inner;
          for (std::int64_t i = 0; i < slices_.inner; ++i) to[i] += values[i];
        }
      });
    });
  }

 private:
  ir::ValueId onto_;
};

Support supports_gather(const ir::Graph& graph, const ir::Node& node) {
  return supports_slices(graph, node.inputs[0], node.inputs[1]);
}

Support supports_scatter(const ir::Graph& graph, const ir::Node& node) {
  if (!std::get<ir::ScatterAttributes>(node.attributes).adds) {
    return Support::no("hand-written loops over slices add values");
  }
  if (graph.type(node.outputs[0]).data_type != DataType::kFloat32) {
    return Support::no("hand-written loops add float32");
  }
  return supports_slices(graph, node.outputs[0], node.inputs[1]);
}

template <class K>
std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<K>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& indexing_entries() {
  static const std::vector<KernelEntry> entries = {
      KernelEntry{ir::Op::gather, supports_gather, make<Gather>, nullptr, nullptr},
      KernelEntry{ir::Op::scatter, supports_scatter, make<ScatterAdd>, nullptr, nullptr}};
  return entries;
}

}  // namespace traingraph::cpu
