// Maximum, average or L2 norm of a moving window, and its gradient.
#include <limits>

#include "ir/window_taps.h"
#include "ops/window.h"

namespace traingraph::ops {
namespace {

using ir::PoolingAttributes;
using ir::PoolingKind;
using ir::Type;
using ir::ValueId;

// A byte holds every index of windows up to this area.
constexpr std::int64_t kLargestByteArea = 255;

DataType index_type(const Inference& in, const ir::Window& w) {
  const std::int64_t area = w.kernel[0] * w.kernel[1];
  if (area > std::numeric_limits<std::int32_t>::max()) {
    in.fail("expected a window of at most " +
            std::to_string(std::numeric_limits<std::int32_t>::max()) +
            " elements, which its index counts, but got " + std::to_string(w.kernel[0]) + "x" +
            std::to_string(w.kernel[1]));
  }
  return area <= kLargestByteArea ? DataType::kUInt8 : DataType::kInt32;
}

// The first position whose window lies in padding alone, or -1. Windows that begin in the source
// cover it; of those behind it the last one tells, and of those before it the first one where no
// step between two taps is longer than the source.
std::int64_t first_uncovered(const ir::Window& w, int axis, std::int64_t positions,
                             std::int64_t source) {
  auto covers = [&](std::int64_t position) {
    const ir::Taps taps = ir::taps_in(w, axis, position, source);
    return taps.first < taps.end;
  };
  const std::int64_t before = (w.padding_before[axis] + w.stride[axis] - 1) / w.stride[axis];
  const std::int64_t tried = w.dilation[axis] <= source ? 1 : std::min(before, positions);
  for (std::int64_t position = 0; position < tried; ++position) {
    if (!covers(position)) return position;
  }
  if (covers(positions - 1)) return -1;
  return (source + w.padding_before[axis] + w.stride[axis] - 1) / w.stride[axis];
}

// Of y for x (N, C, H, W). A window of padding alone has no maximum and no average: it is refused.
Shape result_shape(const Inference& in, const Shape& x) {
  const ir::Window& w = in.get<PoolingAttributes>().window;
  expect_window(in, w, x[2], x[3]);
  const Shape result = {x[0], x[1], window_positions(w, 0, x[2]), window_positions(w, 1, x[3])};
  for (int axis = 0; axis < 2; ++axis) {
    const auto at = static_cast<std::size_t>(axis) + 2;
    const std::int64_t position = first_uncovered(w, axis, result[at], x[at]);
    if (position >= 0) {
      in.fail("expected every window to cover an element of the source " + to_string(x) +
              " but the padding alone fills position " + std::to_string(position) + " of the " +
              (axis == 0 ? "height" : "width"));
    }
  }
  return result;
}

// x (N, C, H, W) → y (N, C, P, Q) [, index (N, C, P, Q): the row-major place of the first largest
// element in its window]
std::vector<Type> infer(const Inference& in) {
  in.expect_inputs(1, 1);
  in.expect_rank(0, 4, "a source");
  const auto& a = in.get<PoolingAttributes>();
  const Type& x = in.type(0);
  const Type y{x.data_type, result_shape(in, x.shape), x.batched};
  if (!a.with_index) return {y};
  if (a.kind != PoolingKind::max) in.fail("expected max pooling for a window index");
  return {y, Type{index_type(in, a.window), y.shape, y.batched}};
}

// max: dy (N, C, P, Q), index (N, C, P, Q); average: dy; L2: dy, x (N, C, H, W), y (N, C, P, Q) →
// dx = source_shape (N, C, H, W), overwritten
std::vector<Type> infer_gradient(const Inference& in) {
  const auto& a = in.get<PoolingAttributes>();
  const std::size_t inputs =
      a.kind == PoolingKind::max ? 2 : (a.kind == PoolingKind::average ? 1 : 3);
  in.expect_inputs(inputs, inputs);
  if (a.source_shape.size() != 4) {
    in.fail("expected a source shape of rank 4 but got " + to_string(a.source_shape));
  }
  const Shape expected = result_shape(in, a.source_shape);
  for (std::size_t i = 0; i < inputs; ++i) {
    const Shape& shape = in.type(i).shape;
    const Shape& wanted = a.kind == PoolingKind::l2_norm && i == 1 ? a.source_shape : expected;
    if (shape != wanted) {
      in.fail("expected input " + std::to_string(i) + " of shape " + to_string(wanted) +
              " but got " + to_string(shape));
    }
  }
  return {Type{in.type(0).data_type, a.source_shape, in.type(0).batched}};
}

// max: dy goes to the element the index names. average: dy / count to each element of the window.
// L2: dx = dy x / y, 0 where y is 0.
void gradient(Gradient& g) {
  auto attributes = g.get<PoolingAttributes>();
  std::vector<ValueId> inputs = {g.result_gradient()};
  if (attributes.kind == PoolingKind::max) {
    if (attributes.with_index) {
      inputs.push_back(g.result(1));
    } else {
      // A forward pass for inference kept no index: find it again.
      auto indexed = attributes;
      indexed.with_index = true;
      const ir::NodeId node = apply(g.graph, ir::Op::pooling, indexed, {g.input(0)});
      inputs.push_back(g.graph.node(node).outputs[1]);
    }
  } else if (attributes.kind == PoolingKind::l2_norm) {
    inputs.push_back(g.input(0));
    inputs.push_back(g.result(0));
  }
  attributes.source_shape = g.graph.type(g.input(0)).shape;
  g.set(0, apply1(g.graph, ir::Op::pooling_gradient, attributes, std::move(inputs)));
}

bool is_maximum(const ir::Node& node) {
  return std::get<PoolingAttributes>(node.attributes).kind == PoolingKind::max;
}

}  // namespace

const Definition pooling_definition{
    infer, gradient, {.mixed = Mixed::follows, .stays_finite = is_maximum}};
const Definition pooling_gradient_definition{
    infer_gradient, nullptr, {.mixed = Mixed::follows, .follows_readers = true}};

}  // namespace traingraph::ops
