// What moves elements and computes little or nothing, by hand-written shaders.
#include "backends/metal/shaders/shader_kernel.h"
#include "runtime/numbers/philox.h"
#include "runtime/table_backend.h"

namespace traingraph::metal {
namespace {

// A dense tensor as runs: everything from one axis on is contiguous.
std::int64_t run_of(const Shape& shape, int axis) {
  std::int64_t run = 1;
  for (auto k = static_cast<std::size_t>(axis); k < shape.size(); ++k) run *= shape[k];
  return run;
}

std::unique_ptr<Kernel> make_concatenate(const ir::Graph& graph, const ir::Node& node,
                                         Device& device) {
  const int axis = std::get<ir::AxisAttributes>(node.attributes).axis;
  const int target = narrow(run_of(graph.type(node.outputs[0]).shape, axis));
  auto all = std::make_unique<Sequence>();
  int at = 0;
  for (ir::ValueId input : node.inputs) {
    const Shape& shape = graph.type(input).shape;
    const int run = narrow(run_of(shape, axis));
    all->add(dispatch(device, "copy_runs", {input, node.outputs[0]},
                      shader::Runs{run, run, target, 0, at}, element_count(shape)));
    at += run;
  }
  return all;
}

// Each source is written with the zeros before it, the last one with those behind it too.
std::unique_ptr<Kernel> make_pad(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const auto& attributes = std::get<ir::PadAttributes>(node.attributes);
  const Shape& target = graph.type(node.outputs[0]).shape;
  const std::int64_t all = run_of(target, attributes.axis);
  const std::int64_t outer = element_count(target) / all;
  auto both = std::make_unique<Sequence>();
  std::int64_t end = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const std::int64_t run = run_of(graph.type(node.inputs[i]).shape, attributes.axis);
    const std::int64_t start = all / attributes.extent * attributes.starts[i];
    const std::int64_t to = i + 1 == node.inputs.size() ? all : start + run;
    const shader::Padded a{narrow(run), narrow(start - end), narrow(to - end), narrow(all),
                           narrow(end)};
    both->add(
        dispatch(device, "pad_runs", {node.inputs[i], node.outputs[0]}, a, outer * (to - end)));
    end = to;
  }
  return both;
}

std::unique_ptr<Kernel> make_slice(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const auto& attributes = std::get<ir::SliceAttributes>(node.attributes);
  const Shape& shape = graph.type(node.outputs[0]).shape;
  const int run = narrow(run_of(shape, attributes.axis));
  const int source = narrow(run_of(graph.type(node.inputs[0]).shape, attributes.axis));
  const int start = narrow(run / attributes.extent * attributes.start);
  return dispatch(device, "copy_runs", {node.inputs[0], node.outputs[0]},
                  shader::Runs{run, source, run, start, 0}, element_count(shape));
}

std::unique_ptr<Kernel> make_transpose(const ir::Graph& graph, const ir::Node& node,
                                       Device& device) {
  const auto& axes = std::get<ir::TransposeAttributes>(node.attributes).axes;
  const Shape& source = graph.type(node.inputs[0]).shape;
  const Shape& shape = graph.type(node.outputs[0]).shape;
  const shader::Strides dense = broadcast_strides(source, source);
  shader::Moved a{};
  a.extents = extents_of(shape);
  a.target = broadcast_strides(shape, shape);
  for (std::size_t k = 0; k < axes.size(); ++k) a.source.step[k] = dense.step[axes[k]];
  return dispatch(device, "move", {node.inputs[0], node.outputs[0]}, a, element_count(shape));
}

std::unique_ptr<Kernel> make_select(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const Shape& shape = graph.type(node.outputs[0]).shape;
  const auto strides = [&](std::size_t i) {
    return broadcast_strides(graph.type(node.inputs[i]).shape, shape);
  };
  // A source that is not there: the other one stands in for it, unread.
  const bool one = node.inputs.size() == 2;
  const bool where_not = std::get<ir::SelectAttributes>(node.attributes).where_not;
  const std::size_t y = one ? 1 : 2;
  const int without = one ? (where_not ? 1 : 2) : 0;
  return dispatch(device, "select_elements",
                  {node.inputs[0], node.inputs[1], node.inputs[y], node.outputs[0]},
                  shader::Select{extents_of(shape), strides(0), strides(1), strides(y), without},
                  element_count(shape));
}

std::unique_ptr<Kernel> make_dropout(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const auto& attributes = std::get<ir::DropoutAttributes>(node.attributes);
  const Shape& shape = graph.type(node.outputs[0]).shape;
  const std::int64_t count = element_count(shape);
  const bool counts_rows = node.inputs.size() > 2;
  shader::Dropout a{};
  a.seed_low = static_cast<unsigned>(attributes.seed);
  a.seed_high = static_cast<unsigned>(attributes.seed >> 32);
  a.threshold = philox::keep_threshold(attributes.rate);
  a.scale = static_cast<float>(1 / (1 - attributes.rate));
  a.per_row = counts_rows ? narrow(count / shape[0]) : 0;
  return dispatch(
      device, "dropout",
      {node.inputs[0], node.inputs[1], node.inputs[counts_rows ? 2 : 1], node.outputs[0]}, a,
      count);
}

Support supports_reorder(const ir::Graph& graph, const ir::Node& node) {
  const Support support = supports_float(graph, node);
  if (!support.yes) return support;
  for (ir::ValueId id : {node.inputs[0], node.outputs[0]}) {
    const ir::Type& type = graph.type(id);
    if (element_bytes(type.data_type) != sizeof(float)) {
      return Support::no("a reorder of elements that are not of four bytes");
    }
    if (ir::physical_dimensions(type.shape, graph.value(id).layout).size() > shader::kDimensions) {
      return Support::no("a layout of more than 12 dimensions");
    }
  }
  return {};
}

int dimensions_of(const Shape& shape, const ir::Layout& layout, shader::Dimension* to) {
  const auto dimensions = ir::physical_dimensions(shape, layout);
  std::vector<std::int64_t> divisor(shape.size(), 1);
  for (std::size_t k = dimensions.size(); k-- > 0;) {
    const ir::PhysicalDimension& from = dimensions[k];
    auto& inner = divisor[static_cast<std::size_t>(from.axis)];
    to[k] = {from.axis, narrow(inner), narrow(from.extent), narrow(from.stride)};
    inner *= from.extent;
  }
  return static_cast<int>(dimensions.size());
}

struct Nothing {};

std::unique_ptr<Kernel> make_reorder(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const Shape& shape = graph.type(node.inputs[0]).shape;
  const ir::Layout& from = graph.value(node.inputs[0]).layout;
  const ir::Layout& to = graph.value(node.outputs[0]).layout;
  shader::Reorder a{};
  a.extents = extents_of(shape);
  a.from_count = dimensions_of(shape, from, a.from);
  a.to_count = dimensions_of(shape, to, a.to);
  auto all = std::make_unique<Sequence>();
  if (ir::has_padding(shape, to)) {
    all->add(dispatch(device, "fill_zero", {node.outputs[0]}, Nothing{},
                      ir::padded_elements(shape, to)));
  }
  all->add(dispatch(device, "reorder", {node.inputs[0], node.outputs[0]}, a, element_count(shape)));
  return all;
}

}  // namespace

std::vector<KernelEntry> data_movement_entries() {
  return {{ir::Op::concatenate, supports_float, make_concatenate},
          {ir::Op::slice, supports_float, make_slice},
          {ir::Op::pad, supports_float, make_pad},
          {ir::Op::transpose, supports_float, make_transpose},
          {ir::Op::select, supports_float, make_select}};
}

std::vector<KernelEntry> dropout_entries() {
  return {{ir::Op::dropout, supports_float, make_dropout}};
}

std::vector<KernelEntry> reorder_entries() {
  return {{ir::Op::reorder, supports_reorder, make_reorder, layouts_as_they_are}};
}

}  // namespace traingraph::metal
