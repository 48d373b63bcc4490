// Layout conversion for elements of any type. Padding becomes zero.
#include "backends/cuda/device/device.h"
#include "backends/cuda/device/transpose.h"
#include "backends/cuda/kernel/node_kernel.h"
#include "runtime/table_backend.h"

namespace traingraph::cuda {
namespace {

constexpr int kMaxDimensions = 16;

// The memory layout of one side: dimensions outermost first, blocks last.
struct Side {
  int rank = 0, dimensions = 0;
  int axis[kMaxDimensions] = {};
  Divider extent[kMaxDimensions];
  std::int64_t stride[kMaxDimensions] = {};

  Side() = default;
  Side(const Shape& shape, const ir::Layout& layout) : rank(static_cast<int>(shape.size())) {
    for (const ir::PhysicalDimension& d : ir::physical_dimensions(shape, layout)) {
      axis[dimensions] = d.axis;
      extent[dimensions] = Divider(d.extent);
      stride[dimensions++] = d.stride;
    }
  }
};

struct Plan {
  Side from, to;
  std::int64_t shape[8];
  std::int64_t count;  // of the target's memory, padding included
};

// One thread per element of the target's memory.
template <class T>
__global__ void __launch_bounds__(kThreads)
    reorder(const __grid_constant__ Plan plan, const T* from, T* to) {
  const std::int64_t place = thread_number();
  if (place >= plan.count) return;
  // Coordinates along the target's dimensions, combined per axis: the dimension of the axis, then
  // its blocks.
  std::int64_t index[8] = {};
  std::int64_t rest = place;
  std::int64_t at[kMaxDimensions];
  for (int d = plan.to.dimensions - 1; d >= 0; --d) at[d] = plan.to.extent[d].split(rest);
  for (int d = 0; d < plan.to.dimensions; ++d) {
    std::int64_t& i = index[plan.to.axis[d]];
    i = d < plan.to.rank ? at[d] : i * plan.to.extent[d].divisor + at[d];
  }
  T value{};
  bool inside = true;
  for (int axis = 0; axis < plan.to.rank; ++axis) inside = inside && index[axis] < plan.shape[axis];
  if (inside) {
    std::int64_t offset = 0;
    for (int d = plan.from.dimensions - 1; d >= 0; --d) {
      std::int64_t& left = index[plan.from.axis[d]];
      const std::int64_t here = d >= plan.from.rank ? plan.from.extent[d].split(left) : left;
      offset += here * plan.from.stride[d];
    }
    value = from[offset];
  }
  to[place] = value;
}

class Reorder final : public NodeKernel {
 public:
  Reorder(const ir::Graph& graph, const ir::Node& node) : NodeKernel(graph, node) {
    const ir::Type& type = graph.type(node.inputs[0]);
    const ir::Layout& from = graph.value(node.inputs[0]).layout;
    const ir::Layout& to = graph.value(node.outputs[0]).layout;
    bytes_ = element_bytes(type.data_type);
    plan_.from = Side(type.shape, from);
    plan_.to = Side(type.shape, to);
    std::copy(type.shape.begin(), type.shape.end(), plan_.shape);
    plan_.count = ir::padded_elements(type.shape, to);
    permutes_ = from.blocks.empty() && to.blocks.empty();
    if (permutes_) transpose_ = permutation(type, from, to);
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (plan_.count == 0) return;
    if (permutes_) {
      enqueue_transpose(transpose_, in<std::byte>(pointers, 0), out<std::byte>(pointers, 0),
                        stream);
      return;
    }
    with_unit(bytes_, [&](auto sample) {
      using T = decltype(sample);
      if constexpr (sizeof(T) <= 8) {
        reorder<T><<<blocks_for(plan_.count), kThreads, 0, stream>>>(plan_, in<T>(pointers, 0),
                                                                     out<T>(pointers, 0));
      }
    });
    check_launch("reorder");
  }

 private:
  // Without blocks, both sides are dense tensors whose axes have different orders.
  static TransposePlan permutation(ir::Type type, const ir::Layout& from, const ir::Layout& to) {
    std::vector<int> source, axes;
    for (int k = 0; k < type.rank(); ++k)
      source.push_back(from.order.empty() ? k : from.order[static_cast<std::size_t>(k)]);
    Shape shape;
    for (int axis : source) shape.push_back(type.shape[static_cast<std::size_t>(axis)]);
    for (int k = 0; k < type.rank(); ++k) {
      const int axis = to.order.empty() ? k : to.order[static_cast<std::size_t>(k)];
      axes.push_back(
          static_cast<int>(std::find(source.begin(), source.end(), axis) - source.begin()));
    }
    type.shape = shape;
    return transpose_plan(type, axes);
  }

  bool permutes_ = false;
  TransposePlan transpose_;
  Plan plan_{};
  std::size_t bytes_ = 4;
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (graph.type(node.inputs[0]).rank() > 8) return Support::no("more than 8 axes");
  for (ir::ValueId id : {node.inputs[0], node.outputs[0]}) {
    if (graph.value(id).layout.blocks.size() > 8) return Support::no("more than 8 blocks");
  }
  return {};
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context&) {
  return std::make_unique<Reorder>(graph, node);
}

}  // namespace

std::vector<KernelEntry> reorder_entries() {
  return {{ir::Op::reorder, supports, make, layouts_as_they_are, nullptr}};
}

}  // namespace traingraph::cuda
