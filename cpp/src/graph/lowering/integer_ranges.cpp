// Finds the range that each integer input must respect (labels, indices, lengths), and adds ops
// that check indices inside the program.
#include "graph/lowering/integer_ranges.h"

#include <algorithm>
#include <set>

#include "graph/lowering/lowering.h"
#include "ops/emit.h"

namespace traingraph {
namespace {

using ir::kNone;
using ir::ValueId;

// The caller's array that reshapes show.
ValueId behind_reshapes(const ir::Graph& graph, ValueId value) {
  while (graph.value(value).producer != kNone &&
         graph.node(graph.value(value).producer).op == ir::Op::reshape) {
    value = graph.node(graph.value(value).producer).inputs[0];
  }
  return value;
}

// f(integers, what they may be) for each use of them by an op.
template <class F>
void for_each_range(const ir::Graph& graph, const F& f) {
  // Those that f adds use none.
  const std::size_t count = graph.nodes.size();
  for (std::size_t n = 0; n < count; ++n) {
    const ir::Node& node = graph.nodes[n];
    const auto integers = ops::definition(node.op).properties.integers;
    if (integers == nullptr) continue;
    const ops::IntegerUse use = integers(graph, node);
    if (use.integers == kNone) continue;
    f(use.integers,
      IntegerRange{use.lowest, use.end, use.are_lengths, use.descend, ir::where(graph, node)});
  }
}

// Several uses of one tensor leave what they have in common.
void restrict_to(LoweredGraph& lowered, IntegerRange range, ValueId integers) {
  const ir::Graph& graph = lowered.lowering.graph;
  const ir::Value& value = graph.value(behind_reshapes(graph, integers));
  const bool is_array = value.source == ir::Source::bound || value.source == ir::Source::parameter;
  if (is_floating_point(value.type.data_type) || !is_array) return;
  const auto slot = static_cast<std::size_t>(value.slot);
  IntegerRange& known =
      value.source == ir::Source::bound ? lowered.bound[slot].range : lowered.slots[slot].range;
  if (known.count != 0) {
    if (known.count < range.count) range.layer = known.layer;
    range.lowest = std::max(known.lowest, range.lowest);
    range.count = std::min(known.count, range.count);
    range.are_lengths = known.are_lengths || range.are_lengths;
    range.descends = known.descends || range.descends;
  }
  known = range;
}

// As it was declared, else the label of the tensor that has this value.
std::string name_of(const LoweredGraph& lowered, ValueId value) {
  const ir::Value& of = lowered.lowering.graph.value(value);
  if (of.source == ir::Source::bound) return lowered.bound[static_cast<std::size_t>(of.slot)].name;
  for (const auto& [tensor, known] : lowered.tensors) {
    if (known == value) return tensor->label();
  }
  return "computed";
}

}  // namespace

void find_integer_ranges(LoweredGraph& lowered) {
  for_each_range(lowered.lowering.graph, [&](ValueId integers, const IntegerRange& range) {
    restrict_to(lowered, range, integers);
  });
}

void add_index_checks(LoweredGraph& lowered, bool on_gpu) {
  ir::Graph& graph = lowered.lowering.graph;
  graph.layer = kNone;
  // Nobody looks at a label, or at lengths, wrong ones of which give NaN: not even where something
  // is picked by them besides.
  std::set<ValueId> lengths;
  for_each_range(graph, [&](ValueId integers, const IntegerRange& range) {
    if (range.descends) lengths.insert(behind_reshapes(graph, integers));
  });
  for_each_range(graph, [&](ValueId integers, const IntegerRange& range) {
    const ValueId source = behind_reshapes(graph, integers);
    if (range.lowest < 0 || lengths.contains(source)) return;
    const ir::Value& value = graph.value(source);
    const bool is_computed =
        value.source == ir::Source::node && graph.node(value.producer).op != ir::Op::constant;
    if (!is_computed && !(on_gpu && value.source == ir::Source::bound)) return;
    const auto number = static_cast<std::int64_t>(lowered.index_checks.size());
    std::vector<ValueId> inputs{integers};
    if (number > 0) inputs.push_back(lowered.outside);
    lowered.outside =
        ops::apply1(graph, ir::Op::check_indices,
                    ir::IndexCheckAttributes{number, range.lowest, range.count}, std::move(inputs));
    lowered.index_checks.push_back(
        {name_of(lowered, behind_reshapes(graph, integers)), graph.type(integers), range});
  });
  if (lowered.outside != kNone) graph.value(lowered.outside).keep = true;
}

}  // namespace traingraph
