// Ops that move elements without reading their values: concatenate, slice, pad and transpose, by
// element size.
#include <algorithm>
#include <vector>

#include "backends/cuda/device/device.h"
#include "backends/cuda/device/transpose.h"
#include "backends/cuda/kernel/node_kernel.h"

namespace traingraph::cuda {
namespace {

// A 2-D copy: `count` runs, with lengths and strides in elements, and the number of zeros before
// and after each run in the result.
struct Rectangle {
  std::int64_t count, run, from_start, from_step, to_start, to_step;
  std::int64_t before = 0, after = 0;

  std::int64_t row() const { return before + run + after; }
  // Of 16 bytes if all extents are multiples of them.
  std::size_t unit(std::size_t element_bytes) const {
    const std::int64_t all = run | from_start | from_step | to_start | to_step | before | after;
    return all * static_cast<std::int64_t>(element_bytes) % 16 == 0 ? 16 : element_bytes;
  }
};

// Rectangles of one launch, in units. A row of the result has `before` zeros, `run` units and zeros
// again.
constexpr int kMostCopies = 8;
template <class T>
struct Copies {
  struct Copy {
    std::int64_t count, before, run, from_step, to_step;
    Divider row;
    const T* from;
    T* to;
  } of[kMostCopies];
};

template <class T>
__global__ void __launch_bounds__(kThreads) copy_runs(const __grid_constant__ Copies<T> copies) {
  const auto& copy = copies.of[blockIdx.y];
  std::int64_t number = thread_number();
  if (number >= copy.count * copy.row.divisor) return;
  const std::int64_t at = copy.row.split(number), k = at - copy.before;
  copy.to[number * copy.to_step + at] =
      k >= 0 && k < copy.run ? copy.from[number * copy.from_step + k] : T{};
}

// The rectangles of this unit, into one result.
template <class T>
void enqueue(const std::vector<Rectangle>& rectangles, std::size_t element_bytes,
             const std::vector<const std::byte*>& from, std::byte* to, cudaStream_t stream) {
  const auto units = [&](std::int64_t elements) {
    return elements * static_cast<std::int64_t>(element_bytes) /
           static_cast<std::int64_t>(sizeof(T));
  };
  Copies<T> copies;
  unsigned count = 0;
  std::int64_t most = 0;
  const auto launch = [&] {
    if (count == 0) return;
    copy_runs<T><<<dim3(blocks_for(most), count), kThreads, 0, stream>>>(copies);
    check_launch("copy of runs");
    count = 0, most = 0;
  };
  for (std::size_t i = 0; i < rectangles.size(); ++i) {
    const Rectangle& r = rectangles[i];
    if (r.count * r.row() == 0 || r.unit(element_bytes) != sizeof(T)) continue;
    copies.of[count++] = {r.count,
                          units(r.before),
                          units(r.run),
                          units(r.from_step),
                          units(r.to_step),
                          Divider(units(r.row())),
                          reinterpret_cast<const T*>(from[i]) + units(r.from_start),
                          reinterpret_cast<T*>(to) + units(r.to_start)};
    most = std::max(most, r.count * units(r.row()));
    if (count == kMostCopies) launch();
  }
  launch();
}

// A dense tensor as `outer` contiguous runs, from one axis on.
struct Runs {
  std::int64_t outer = 1, run = 1;

  Runs(const Shape& shape, int axis) {
    for (std::size_t k = 0; k < shape.size(); ++k) {
      (k < static_cast<std::size_t>(axis) ? outer : run) *= shape[k];
    }
  }
};

// concatenate: x_i (…, D_i, …) → y (…, Σ D_i, …); pad: the same with zeros between them, each
// written with the part after it; slice: x (…, D, …) → y (…, extent, …).
class Rectangles final : public NodeKernel {
 public:
  Rectangles(const ir::Graph& graph, const ir::Node& node)
      : NodeKernel(graph, node), bytes_(element_bytes(graph.type(node.outputs[0]).data_type)) {
    const Shape& result = graph.type(node.outputs[0]).shape;
    if (node.op == ir::Op::slice) {
      const auto& a = std::get<ir::SliceAttributes>(node.attributes);
      const Runs from(graph.type(node.inputs[0]).shape, a.axis), to(result, a.axis);
      rectangles_.push_back({to.outer, to.run, to.run / a.extent * a.start, from.run, 0, to.run});
      return;
    }
    if (node.op == ir::Op::pad) {
      const auto& a = std::get<ir::PadAttributes>(node.attributes);
      const Runs to(result, a.axis);
      std::int64_t end = 0;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const Runs from(graph.type(node.inputs[i]).shape, a.axis);
        const std::int64_t start = to.run / a.extent * a.starts[i];
        const bool last = i + 1 == node.inputs.size();
        rectangles_.push_back({from.outer, from.run, 0, from.run, end, to.run, start - end,
                               last ? to.run - start - from.run : 0});
        end = start + from.run;
      }
      return;
    }
    const int axis = std::get<ir::AxisAttributes>(node.attributes).axis;
    const Runs to(result, axis);
    std::int64_t at = 0;
    for (ir::ValueId id : node.inputs) {
      const Runs from(graph.type(id).shape, axis);
      rectangles_.push_back({from.outer, from.run, 0, from.run, at, to.run});
      at += from.run;
    }
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    std::vector<const std::byte*> from;
    for (std::size_t i = 0; i < rectangles_.size(); ++i) {
      from.push_back(in<std::byte>(pointers, i));
    }
    for (const std::size_t unit : {std::size_t{16}, bytes_}) {
      with_unit(unit, [&](auto sample) {
        enqueue<decltype(sample)>(rectangles_, bytes_, from, out<std::byte>(pointers, 0), stream);
      });
    }
  }

 private:
  std::size_t bytes_;
  std::vector<Rectangle> rectangles_;
};

// Axis k of y is axis axes[k] of x.
class Transpose final : public NodeKernel {
 public:
  Transpose(const ir::Graph& graph, const ir::Node& node)
      : NodeKernel(graph, node),
        plan_(transpose_plan(graph.type(node.inputs[0]),
                             std::get<ir::TransposeAttributes>(node.attributes).axes)) {}

  void launch(Pointers pointers, cudaStream_t stream) const override {
    enqueue_transpose(plan_, in<std::byte>(pointers, 0), out<std::byte>(pointers, 0), stream);
  }

 private:
  TransposePlan plan_;
};

template <class K>
std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context&) {
  return std::make_unique<K>(graph, node);
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (graph.type(node.outputs[0]).rank() > 8) return Support::no("more than 8 axes");
  return {};
}

}  // namespace

std::vector<KernelEntry> data_movement_entries() {
  return {{ir::Op::concatenate, supports, make<Rectangles>, nullptr, nullptr},
          {ir::Op::slice, supports, make<Rectangles>, nullptr, nullptr},
          {ir::Op::pad, supports, make<Rectangles>, nullptr, nullptr},
          {ir::Op::transpose, supports, make<Transpose>, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
