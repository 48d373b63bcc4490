// Lengths as a source, and values of which steps are behind the ends.
#include "layers/sequences.h"

#include <numeric>

#include "layers/checks.h"

namespace traingraph {
namespace {

using ir::kNone;
using ir::ValueId;

// As many numbers that count from `first`.
ValueId counted(Emitter& e, DataType type, Shape shape, std::int64_t first) {
  std::vector<double> numbers(static_cast<std::size_t>(element_count(shape)));
  std::iota(numbers.begin(), numbers.end(), static_cast<double>(first));
  return ops::constant(e.graph, ir::Type{type, std::move(shape), false}, std::move(numbers));
}

// (N, T, 1): whether a step, counted from `first`, compares so with its sequence's length. Both are
// floating-point numbers less the longest length and 1, so that a length outside, for which 0 is
// picked, is behind every step: NaN stays there.
ValueId steps_that(Emitter& e, const Sequences& s, DataType type, ir::Comparison comparison,
                   std::int64_t first) {
  const std::int64_t least = -s.steps - 1;
  const Shape along = s.time_first ? Shape{s.steps, 1, 1} : Shape{1, s.steps, 1};
  const Shape across = s.time_first ? Shape{1, s.sequences, 1} : Shape{s.sequences, 1, 1};
  const bool batched = e.graph.type(s.lengths).batched && !s.time_first;
  const ValueId table = counted(e, type, {s.steps + 1}, least);
  const ValueId picked =
      ops::apply1(e.graph, ir::Op::gather, ir::AxisAttributes{0}, {table, s.lengths});
  const ValueId lengths = ops::reshape(e.graph, picked, across, batched);
  const ValueId steps = counted(e, type, along, first + least);
  return ops::apply1(e.graph, ir::Op::compare, ir::CompareAttributes{comparison}, {steps, lengths});
}

ValueId where(Emitter& e, ValueId condition, ValueId x) {
  return ops::apply1(e.graph, ir::Op::select, ir::SelectAttributes{}, {condition, x});
}

}  // namespace

ValueId given_lengths(Emitter& e, std::size_t i, std::int64_t sequences) {
  const ir::Type type = e.type(i);
  if (type.data_type != DataType::kInt32) {
    throw DataTypeError(
        layer_message(e, std::string("expected lengths of int32 as the last source but got ") +
                             name(type.data_type)));
  }
  if (type.elements() != sequences) {
    e.fail_shape("expected " + std::to_string(sequences) + " lengths, one per sequence, but got " +
                 to_string(type.shape));
  }
  return ops::reshape(e.graph, e.sources[i], {sequences},
                      type.batched && type.shape[0] == sequences);
}

ValueId without_padding(Emitter& e, const Sequences& s, ValueId x) {
  if (s.lengths == kNone) return x;
  return where(e, steps_that(e, s, e.graph.type(x).data_type, ir::Comparison::less, 0), x);
}

ValueId last_steps(Emitter& e, const Sequences& s, ValueId x) {
  if (s.lengths == kNone) {
    return ops::apply1(e.graph, ir::Op::slice, ir::SliceAttributes{s.time_axis(), s.steps - 1, 1},
                       {x});
  }
  const ValueId last =
      where(e, steps_that(e, s, e.graph.type(x).data_type, ir::Comparison::equal, 1), x);
  return ops::reduce(e.graph, ir::ReduceKind::sum, last, {s.time_axis()});
}

ValueId padding(Emitter& e, const Sequences& s, DataType type) {
  return steps_that(e, s, type, ir::Comparison::greater_or_equal, 0);
}

}  // namespace traingraph
