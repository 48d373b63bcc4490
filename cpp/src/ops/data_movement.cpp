// Ops that move elements: concatenate, slice, pad and transpose. Their gradients are slices, pads
// and transposes.
#include <algorithm>

#include "ops/emit.h"

namespace traingraph::ops {
namespace {

using ir::AxisAttributes;
using ir::PadAttributes;
using ir::SliceAttributes;
using ir::TransposeAttributes;
using ir::Type;
using ir::ValueId;

void check_axis(const Inference& in, int axis) {
  if (axis >= 0 && axis < in.type(0).rank()) return;
  in.fail("expected an axis below " + std::to_string(in.type(0).rank()) + " for shape " +
          to_string(in.type(0).shape) + " but got " + std::to_string(axis));
}

// Sources that differ in the extent of one axis alone; their extents there add up.
std::vector<Type> infer_concatenate(const Inference& in) {
  in.expect_inputs(1, std::max<std::size_t>(1, in.inputs.size()));
  const int axis = in.get<AxisAttributes>().axis;
  check_axis(in, axis);
  const auto at = static_cast<std::size_t>(axis);
  Type result = in.type(0);
  for (std::size_t i = 1; i < in.inputs.size(); ++i) {
    const Type& type = in.type(i);
    Shape expected = in.type(0).shape;
    if (type.rank() == result.rank()) expected[at] = type.shape[at];
    if (type.shape != expected) {
      in.fail("expected shapes that differ in axis " + std::to_string(axis) + " alone but got " +
              to_string(in.type(0).shape) + " and " + to_string(type.shape));
    }
    if (type.data_type != result.data_type) {
      in.fail(std::string("expected one data type but got ") + name(result.data_type) + " and " +
              name(type.data_type));
    }
    result.shape[at] += type.shape[at];
    if (type.batched != result.batched) in.fix_batch();
    result.batched = result.batched || type.batched;
  }
  if (axis == 0 && result.batched) {
    in.fix_batch();
    result.batched = false;
  }
  return {result};
}

// Each source gets its part of dy.
void gradient_of_concatenate(Gradient& g) {
  const int axis = g.get<AxisAttributes>().axis;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < g.node.inputs.size(); ++i) {
    const std::int64_t extent = g.graph.type(g.input(i)).shape[static_cast<std::size_t>(axis)];
    if (g.wants(i)) {
      g.set(i, apply1(g.graph, ir::Op::slice, SliceAttributes{axis, start, extent},
                      {g.result_gradient()}));
    }
    start += extent;
  }
}

std::vector<Type> infer_slice(const Inference& in) {
  in.expect_inputs(1, 1);
  const auto& a = in.get<SliceAttributes>();
  check_axis(in, a.axis);
  Type result = in.type(0);
  std::int64_t& extent = result.shape[static_cast<std::size_t>(a.axis)];
  if (a.start < 0 || a.extent < 1 || a.start + a.extent > extent) {
    in.fail("expected a range within " + std::to_string(extent) + " elements but got " +
            std::to_string(a.start) + " to " + std::to_string(a.start + a.extent));
  }
  extent = a.extent;
  if (a.axis == 0 && result.batched) {
    in.fix_batch();
    result.batched = false;
  }
  return {result};
}

// dy between zeros.
void gradient_of_slice(Gradient& g) {
  const auto& a = g.get<SliceAttributes>();
  const std::int64_t extent = g.graph.type(g.input(0)).shape[static_cast<std::size_t>(a.axis)];
  g.set(0, apply1(g.graph, ir::Op::pad, PadAttributes{a.axis, {a.start}, extent},
                  {g.result_gradient()}));
}

std::vector<Type> infer_pad(const Inference& in) {
  const auto& a = in.get<PadAttributes>();
  in.expect_inputs(1, std::max<std::size_t>(1, in.inputs.size()));
  check_axis(in, a.axis);
  const auto at = static_cast<std::size_t>(a.axis);
  Type result = in.type(0);
  std::int64_t end = 0;
  for (std::size_t i = 0; i < in.inputs.size(); ++i) {
    const Type& type = in.type(i);
    Shape expected = result.shape;
    if (type.rank() == result.rank()) expected[at] = type.shape[at];
    if (type.shape != expected || type.data_type != result.data_type) {
      in.fail("expected sources of one type that differ in axis " + std::to_string(a.axis) +
              " alone but got " + to_string(result.shape) + " and " + to_string(type.shape));
    }
    if (a.starts.size() != in.inputs.size() || a.starts[i] < end ||
        a.starts[i] > a.extent - type.shape[at]) {
      in.fail("expected sources beside each other within " + std::to_string(a.extent) +
              " elements but got one of " + std::to_string(type.shape[at]) + " after " +
              std::to_string(end));
    }
    end = a.starts[i] + type.shape[at];
    if (type.batched != result.batched) in.fix_batch();
    result.batched = result.batched || type.batched;
  }
  result.shape[at] = a.extent;
  if (a.axis == 0 && result.batched) {
    in.fix_batch();
    result.batched = false;
  }
  return {result};
}

// Each source gets its part of dy.
void gradient_of_pad(Gradient& g) {
  const auto a = g.get<PadAttributes>();
  for (std::size_t i = 0; i < g.node.inputs.size(); ++i) {
    if (!g.wants(i)) continue;
    const std::int64_t extent = g.graph.type(g.input(i)).shape[static_cast<std::size_t>(a.axis)];
    g.set(i, apply1(g.graph, ir::Op::slice, SliceAttributes{a.axis, a.starts[i], extent},
                    {g.result_gradient()}));
  }
}

// Axis k of the result is axis axes[k] of the source.
std::vector<Type> infer_transpose(const Inference& in) {
  in.expect_inputs(1, 1);
  const auto& axes = in.get<TransposeAttributes>().axes;
  const Type& source = in.type(0);
  std::vector<int> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  bool permutation = static_cast<int>(axes.size()) == source.rank();
  for (std::size_t k = 0; k < sorted.size(); ++k) {
    permutation = permutation && sorted[k] == static_cast<int>(k);
  }
  if (!permutation) {
    in.fail("expected each of the axes of " + to_string(source.shape) + " once but got " +
            to_string(Shape(axes.begin(), axes.end())));
  }
  Type result{source.data_type, {}, source.batched};
  for (int axis : axes) result.shape.push_back(source.shape[static_cast<std::size_t>(axis)]);
  if (source.batched && axes[0] != 0) {
    in.fix_batch();
    result.batched = false;
  }
  return {result};
}

void gradient_of_transpose(Gradient& g) {
  const auto& axes = g.get<TransposeAttributes>().axes;
  TransposeAttributes inverse;
  inverse.axes.resize(axes.size());
  for (std::size_t k = 0; k < axes.size(); ++k) {
    inverse.axes[static_cast<std::size_t>(axes[k])] = static_cast<int>(k);
  }
  g.set(0, apply1(g.graph, ir::Op::transpose, std::move(inverse), {g.result_gradient()}));
}

}  // namespace

const Definition concatenate_definition{
    infer_concatenate,
    gradient_of_concatenate,
    {.mixed = Mixed::follows, .follows_input = kAnyInput, .stays_finite = always}};
const Definition slice_definition{
    infer_slice, gradient_of_slice, {.mixed = Mixed::follows, .stays_finite = always}};
const Definition pad_definition{
    infer_pad,
    gradient_of_pad,
    {.mixed = Mixed::follows, .follows_input = kAnyInput, .stays_finite = always}};
const Definition transpose_definition{
    infer_transpose, gradient_of_transpose, {.mixed = Mixed::follows, .stays_finite = always}};

ValueId beside(ir::Graph& graph, ValueId a, ValueId b) {
  struct Part {
    std::int64_t start;
    ValueId value;
  };
  std::vector<Part> parts;
  PadAttributes whole;
  for (ValueId sum : {a, b}) {
    const ir::NodeId producer = graph.value(sum).producer;
    if (producer == ir::kNone || graph.node(producer).op != ir::Op::pad) return ir::kNone;
    const ir::Node& node = graph.node(producer);
    const auto& own = std::get<PadAttributes>(node.attributes);
    if (sum == b && own.axis != whole.axis) return ir::kNone;
    whole.axis = own.axis;
    whole.extent = own.extent;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      parts.push_back({own.starts[i], node.inputs[i]});
    }
  }
  std::sort(parts.begin(), parts.end(),
            [](const Part& x, const Part& y) { return x.start < y.start; });
  std::int64_t end = 0, filled = 0;
  std::vector<ValueId> sources;
  for (const Part& part : parts) {
    if (part.start < end) return ir::kNone;
    if (graph.type(part.value).data_type != graph.type(parts[0].value).data_type) return ir::kNone;
    const auto axis = static_cast<std::size_t>(whole.axis);
    const std::int64_t extent = graph.type(part.value).shape[axis];
    end = part.start + extent;
    filled += extent;
    whole.starts.push_back(part.start);
    sources.push_back(part.value);
  }
  if (filled == whole.extent) {
    return apply1(graph, ir::Op::concatenate, AxisAttributes{whole.axis}, std::move(sources));
  }
  return apply1(graph, ir::Op::pad, std::move(whole), std::move(sources));
}

}  // namespace traingraph::ops
