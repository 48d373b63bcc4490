// The part of a parameter that each rank updates, and the parameter out of the parts of all.
#include "graph/lowering/optimizer_shards.h"

#include <numeric>

#include "ops/emit.h"
#include "runtime/memory/parameter_store.h"

namespace traingraph {

using ir::ValueId;

namespace {

std::vector<double> counted(std::size_t count) {
  std::vector<double> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0.0);
  return numbers;
}

}  // namespace

std::shared_ptr<const BufferParts> parts_over_ranks(
    const std::shared_ptr<distributed::Ranks>& ranks) {
  auto parts = std::make_shared<BufferParts>();
  parts->own = static_cast<std::size_t>(ranks->rank());
  parts->count = static_cast<std::size_t>(ranks->size());
  parts->gather = [ranks](std::span<const std::byte> own) { return ranks->all_gather(own); };
  return parts;
}

ValueId part_of_rank(const GraphState& state, Lowering& lowering, ValueId whole) {
  ir::Graph& graph = lowering.graph;
  const auto count = static_cast<std::int64_t>(state.buffer_parts->count);
  const std::int64_t elements = graph.type(whole).elements();
  const std::int64_t part = state.buffer_parts->elements(graph.type(whole).shape);
  ValueId flat = ops::reshape(graph, whole, {elements});
  if (part * count != elements) {
    flat = ops::apply1(graph, ir::Op::pad, ir::PadAttributes{0, {0}, part * count}, {flat});
  }
  const ValueId rank = ops::reshape(graph, lowering.step(ir::StepInput::rank), {1});
  const ValueId own = ops::apply1(graph, ir::Op::gather, ir::AxisAttributes{0},
                                  {ops::reshape(graph, flat, {count, part}), rank});
  return ops::reshape(graph, own, {part});
}

ValueId whole_of_part(const GraphState& state, Lowering& lowering, ValueId part,
                      const ir::Type& type) {
  ir::Graph& graph = lowering.graph;
  const auto count = static_cast<std::int64_t>(state.buffer_parts->count);
  const std::int64_t each = graph.type(part).elements();
  const ValueId places = ops::constant(graph, {DataType::kInt64, {count, 1}, false},
                                       counted(state.buffer_parts->count));
  const ValueId is_own =
      ops::apply1(graph, ir::Op::compare, ir::CompareAttributes{ir::Comparison::equal},
                  {places, lowering.step(ir::StepInput::rank)});
  const ValueId one = ops::filled(graph, {type.data_type, {1, 1}, false}, 1);
  const ValueId own = ops::apply1(graph, ir::Op::select, ir::SelectAttributes{}, {is_own, one});
  // What is added to -0 keeps its bits; 0 would take the sign of another -0.
  const ValueId beside = ops::binary(graph, ir::Scalar::where_nonzero,
                                     ops::reshape(graph, part, {1, each}), own, -0.0);
  ValueId flat = ops::reshape(graph, beside, {count * each});
  if (count * each != type.elements()) {
    flat = ops::apply1(graph, ir::Op::slice, ir::SliceAttributes{0, 0, type.elements()}, {flat});
  }
  return ops::reshape(graph, flat, type.shape);
}

}  // namespace traingraph
