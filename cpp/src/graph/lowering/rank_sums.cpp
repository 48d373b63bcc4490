// Ops by which ranks train as one: shares of the global batch, and sums of gradients in buckets.
#include "graph/lowering/rank_sums.h"

#include <algorithm>
#include <numeric>

#include <traingraph/errors.h>

#include "ops/emit.h"

namespace traingraph {

using ir::ValueId;

namespace {

// The last bucket travels while nothing is computed any more.
constexpr std::size_t kLastBytes = std::size_t{1} << 20;

// Places of values, the first that is computed before the others.
std::vector<std::size_t> in_order(const ir::Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::size_t> places(values.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::ranges::stable_sort(places, {},
                           [&](std::size_t k) { return graph.value(values[k]).producer; });
  return places;
}

// Which of the places the last bucket begins with.
std::size_t last_bucket(const std::vector<std::size_t>& bytes) {
  std::size_t first = bytes.size();
  for (std::size_t sum = 0; first > 0 && sum + bytes[first - 1] <= kLastBytes; --first) {
    sum += bytes[first - 1];
  }
  return first;
}

// Right behind what it reads, so that it travels while the rest of its pass computes, and what was
// summed is done with early.
void move_up(ir::Graph& graph, ir::NodeId node) {
  ir::NodeId first = 0;
  for (const ValueId input : graph.node(node).inputs) {
    first = std::max(first, graph.value(input).producer + 1);
  }
  while (first < node && graph.node(first).phase < graph.node(node).phase) ++first;
  const auto at = [&](ir::NodeId n) { return graph.nodes.begin() + n; };
  std::rotate(at(first), at(node), at(node + 1));
  for (ir::NodeId n = first; n <= node; ++n) {
    for (const ValueId output : graph.node(n).outputs) graph.value(output).producer = n;
  }
}

}  // namespace

ValueId share_of_rank(const GraphState& state, Lowering& lowering, ValueId start, bool is_mean) {
  if (state.ranks == nullptr) return start;
  const ValueId share =
      lowering.step(is_mean ? ir::StepInput::mean_share : ir::StepInput::sum_share);
  return ops::binary(lowering.graph, ir::Scalar::multiply, start, share);
}

std::vector<ValueId> written_by_rank(const Lowering& lowering) {
  const ir::Graph& graph = lowering.graph;
  std::vector<ValueId> written;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const ir::Value& value = graph.values[v];
    if (value.writes == ir::kNone) continue;
    const ir::Node& node = graph.node(value.producer);
    if (node.phase != ir::Phase::forward) continue;
    if (node.op == ir::Op::limit_rows) {
      throw Unsupported(
          "[compile] expected no maximum norm of an embedding over several ranks, "
          "which would limit other rows on each, but got one" +
          ir::where(graph, node));
    }
    if (!lowering.written_alike.contains(value.writes)) {
      written.push_back(static_cast<ValueId>(v));
    }
  }
  return written;
}

std::vector<ValueId> sums_over_ranks(const GraphState& state, Lowering& lowering,
                                     const std::vector<ValueId>& values, ir::Phase exchanges_in,
                                     bool in_bfloat16) {
  ir::Graph& graph = lowering.graph;
  graph.phase = exchanges_in;
  graph.layer = ir::kNone;
  const std::vector<ValueId> numbers{lowering.step(ir::StepInput::rank_rows),
                                     lowering.step(ir::StepInput::all_rows)};
  std::vector<ValueId> sums(values.size());
  std::vector<ValueId> inputs = numbers;
  std::vector<std::size_t> bucket;
  std::size_t bytes = 0;
  const auto close = [&] {
    if (bucket.empty()) return;
    const ir::NodeId node = ops::apply(
        graph, ir::Op::all_reduce,
        ir::AllReduceAttributes{state.ranks->number(), state.graph_of_ranks, in_bfloat16}, inputs);
    for (std::size_t k = 0; k < bucket.size(); ++k) sums[bucket[k]] = graph.node(node).outputs[k];
    move_up(graph, node);
    inputs = numbers;
    bucket.clear();
    bytes = 0;
  };
  const std::vector<std::size_t> places = in_order(graph, values);
  std::vector<std::size_t> sizes;
  for (const std::size_t place : places) {
    sizes.push_back(ir::storage_bytes(graph.type(values[place]), {}));
  }
  const std::size_t last = last_bucket(sizes);
  const std::size_t most =
      backend_named(state.device->backend(), state.device->index()).traits().bucket_bytes;
  for (std::size_t k = 0; k < places.size(); ++k) {
    if (k == last || bytes + sizes[k] > most) close();
    inputs.push_back(values[places[k]]);
    bucket.push_back(places[k]);
    bytes += sizes[k];
  }
  close();
  return sums;
}

}  // namespace traingraph
