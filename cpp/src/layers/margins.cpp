#include "layers/margins.h"

#include <algorithm>
#include <limits>

namespace traingraph {

std::int64_t most_mirrored(Margin margin, std::int64_t extent) {
  if (margin == Margin::mirrored) return extent - 1;
  return margin == Margin::symmetric ? extent : std::numeric_limits<std::int64_t>::max();
}

ir::ValueId with_margins(ir::Graph& graph, ir::ValueId x, int axis, std::int64_t before,
                         std::int64_t after, Margin margin, double number) {
  if (before == 0 && after == 0) return x;
  ir::Type type = graph.type(x);
  std::int64_t& extent = type.shape[static_cast<std::size_t>(axis)];
  const std::int64_t own = extent;
  if (margin == Margin::constant && number == 0) {
    return ops::apply1(graph, ir::Op::pad, ir::PadAttributes{axis, {before}, before + own + after},
                       {x});
  }
  if (margin == Margin::constant) {
    std::vector<ir::ValueId> parts;
    const auto add = [&](std::int64_t size) {
      extent = size;
      if (size > 0) parts.push_back(ops::constant(graph, type, {number}));
    };
    add(before);
    parts.push_back(x);
    add(after);
    return ops::apply1(graph, ir::Op::concatenate, ir::AxisAttributes{axis}, std::move(parts));
  }
  std::vector<double> places;
  const std::int64_t edge = margin == Margin::mirrored ? 0 : 1;
  for (std::int64_t k = -before; k < own + after; ++k) {
    std::int64_t place = std::clamp<std::int64_t>(k, 0, own - 1);
    if (margin != Margin::clamped && k < 0) place = -k - edge;
    if (margin != Margin::clamped && k >= own) place = 2 * own - 2 + edge - k;
    places.push_back(static_cast<double>(place));
  }
  return picked(graph, x, axis, std::move(places));
}

ir::ValueId picked(ir::Graph& graph, ir::ValueId x, int axis, std::vector<double> places) {
  const auto count = static_cast<std::int64_t>(places.size());
  const ir::ValueId indices =
      ops::constant(graph, {DataType::kInt32, {count}, false}, std::move(places));
  return ops::apply1(graph, ir::Op::gather, ir::AxisAttributes{axis}, {x, indices});
}

}  // namespace traingraph
