// Attention with its scores as values of L * S elements. Queries, keys and values of one operand
// become three first.
#include <cmath>
#include <limits>
#include <numeric>

#include "passes/compositions.h"

namespace traingraph::passes {
namespace {

using ir::AttentionAttributes;
using ir::Scalar;
using ir::Type;
using ir::ValueId;

// One application, whose values are (N, H, L, …): heads are matrices.
class Heads {
 public:
  Heads(ir::Graph& graph, const ir::Node& node, bool is_gradient)
      : graph_(graph),
        node_(node),
        a_(std::get<AttentionAttributes>(node.attributes)),
        at_(a_, is_gradient, node.inputs.size()),
        extents_(a_, at_, types_of(graph, node)),
        type_(graph.type(node.inputs[at_.q]).data_type) {
    // What a masked key scores: finite, so that no value between the ops is infinite.
    lowest_ = number(graph_, type_,
                     type_ == DataType::kFloat64
                         ? std::numeric_limits<double>::lowest()
                         : static_cast<double>(std::numeric_limits<float>::lowest()));
  }

  std::vector<ValueId> forward() {
    const ValueId s = scores();
    const ValueId largest =
        ops::apply1(graph_, ir::Op::extremum, ir::ExtremumAttributes{3, true, false}, {s});
    // 0 where every key is masked.
    const ValueId any =
        ops::binary(graph_, Scalar::difference,
                    ops::binary(graph_, Scalar::maximum, largest, lowest_), lowest_);
    const auto else_number = [&](ValueId x, double other) {
      return ops::binary(graph_, Scalar::where_nonzero, x, any, other);
    };
    const ValueId powers = exponential(s, else_number(largest, 0));
    const ValueId sum = ops::reduce(graph_, ir::ReduceKind::sum, powers, {3});
    const ValueId divisor = else_number(sum, 1);
    const ValueId p = times(ops::binary(graph_, Scalar::divide, powers, divisor), left());
    const Shape per_query = {extents_.samples, extents_.heads, extents_.queries};
    return {joined(ops::matmul(graph_, p, heads_of(at_.v), false, false), node_.outputs[0]),
            ops::reshape(graph_, else_number(largest, HUGE_VAL), per_query),
            ops::reshape(graph_, ops::unary(graph_, Scalar::log, divisor), per_query)};
  }

  // The formulas are those of the op's gradient rule.
  std::vector<ValueId> gradient() {
    const ValueId q = heads_of(at_.q), k = heads_of(at_.k), dy = heads_of(at_.dy);
    const auto column = [&](std::size_t operand) {
      return ops::reshape(graph_, node_.inputs[operand],
                          {extents_.samples, extents_.heads, extents_.queries, 1});
    };
    const ValueId below = ops::binary(graph_, Scalar::subtract, scores(), column(at_.largest));
    const ValueId p = exponential(below, column(at_.logarithm));
    const ValueId kept = left();
    const ValueId dp = times(ops::matmul(graph_, dy, heads_of(at_.v), false, true), kept);
    // Sum dy y, of these very numbers: where one key has all the probability, the scores' gradient
    // is 0 to the bit.
    const ValueId mean =
        ops::reduce(graph_, ir::ReduceKind::sum, ops::binary(graph_, Scalar::multiply, p, dp), {3});
    const ValueId ds =
        ops::binary(graph_, Scalar::multiply, p, ops::binary(graph_, Scalar::subtract, dp, mean));
    std::vector<ValueId> results = {
        joined(ops::matmul(graph_, ds, k, false, false, a_.scale), node_.outputs[0]),
        joined(ops::matmul(graph_, ds, q, true, false, a_.scale), node_.outputs[1]),
        joined(ops::matmul(graph_, times(p, kept), dy, true, false), node_.outputs[2])};
    if (a_.gives_mask_gradient) results.push_back(mask_gradient(ds));
    return results;
  }

 private:
  static std::vector<Type> types_of(const ir::Graph& graph, const ir::Node& node) {
    std::vector<Type> types;
    for (ValueId input : node.inputs) types.push_back(graph.type(input));
    return types;
  }

  // (N, T, H d) → (N, H, T, d), and back to the type of a result.
  ValueId heads_of(std::size_t operand) {
    const ValueId x = node_.inputs[operand];
    const std::int64_t rows = graph_.type(x).shape[1];
    const ValueId parts =
        ops::reshape(graph_, x, {extents_.samples, rows, extents_.heads, extents_.features});
    return exchanged(parts);
  }
  ValueId joined(ValueId x, ValueId like) {
    return ops::reshape(graph_, exchanged(x), graph_.type(like).shape, graph_.type(like).batched);
  }
  ValueId exchanged(ValueId x) {
    return ops::apply1(graph_, ir::Op::transpose, ir::TransposeAttributes{{0, 2, 1, 3}}, {x});
  }

  ValueId keys(ValueId x, std::int64_t first, std::int64_t count) {
    if (count == graph_.type(x).shape[3]) return x;
    return ops::apply1(graph_, ir::Op::slice, ir::SliceAttributes{3, first, count}, {x});
  }
  ValueId exponential(ValueId x, ValueId minus) {
    return ops::unary(graph_, Scalar::exp, ops::binary(graph_, Scalar::subtract, x, minus));
  }
  ValueId times(ValueId x, ValueId kept) {
    return kept == ir::kNone ? x : ops::binary(graph_, Scalar::multiply, x, kept);
  }
  ValueId without(ValueId ignored, ValueId s) {
    return ops::apply1(graph_, ir::Op::select, ir::SelectAttributes{}, {ignored, lowest_, s});
  }

  ValueId scores() {
    const ValueId s = ops::matmul(graph_, heads_of(at_.q), heads_of(at_.k), false, true, a_.scale);
    const ValueId by_masks = masked_scores(s);
    return a_.causal ? without(later_keys(), by_masks) : by_masks;
  }

  // (1, 1, L, S): whether a key is behind a query's position.
  ValueId later_keys() {
    const auto counted = [this](std::int64_t count, Shape shape) {
      std::vector<double> numbers(static_cast<std::size_t>(count));
      std::iota(numbers.begin(), numbers.end(), 0.0);
      return ops::constant(graph_, Type{type_, std::move(shape), false}, std::move(numbers));
    };
    const ValueId of_queries = counted(extents_.queries, {1, 1, extents_.queries, 1});
    const ValueId of_keys = counted(extents_.keys, {1, 1, 1, extents_.keys});
    return ops::apply1(graph_, ir::Op::compare, ir::CompareAttributes{ir::Comparison::greater},
                       {of_keys, of_queries});
  }

  // The scores of the first M keys by the masks.
  ValueId masked_scores(ValueId s) {
    const std::int64_t masked = extents_.masked_keys, others = extents_.keys - masked;
    if (masked == 0) return s;
    ValueId known = keys(s, 0, masked);
    if (at_.mask != 0) {
      Shape shape = {1, 1, extents_.queries, masked};
      if (extents_.mask_rows != 1) shape[0] = extents_.samples, shape[1] = extents_.heads;
      const ValueId mask = ops::reshape(graph_, node_.inputs[at_.mask], shape);
      const bool is_bool = graph_.type(mask).data_type == DataType::kBoolean;
      known = is_bool ? without(mask, known) : ops::binary(graph_, Scalar::add, known, mask);
    }
    if (at_.key_mask != 0) {
      const Shape shape = {extents_.samples, 1, 1, masked};
      known = without(ops::reshape(graph_, node_.inputs[at_.key_mask], shape), known);
    }
    if (others == 0) return known;
    return ops::apply1(graph_, ir::Op::concatenate, ir::AxisAttributes{3},
                       {known, keys(s, masked, others)});
  }

  // What dropout makes of ones; kNone without it.
  ValueId left() {
    if (at_.step == 0) return ir::kNone;
    const Shape counted = {extents_.samples, extents_.heads, extents_.queries,
                           extents_.counted_keys()};
    std::vector<ValueId> operands = {ops::filled(graph_, {type_, counted, false}, 1),
                                     node_.inputs[at_.step]};
    if (at_.first_row != 0) operands.push_back(node_.inputs[at_.first_row]);
    const ir::DropoutAttributes dropout{a_.rate, a_.seed};
    const ValueId kept = ops::apply1(graph_, ir::Op::dropout, dropout, std::move(operands));
    return keys(kept, 0, extents_.keys);
  }

  ValueId mask_gradient(ValueId ds) {
    ValueId known = keys(ds, 0, extents_.masked_keys);
    const bool one_for_all = extents_.mask_rows == 1;
    if (one_for_all) known = ops::reduce(graph_, ir::ReduceKind::sum, known, {0, 1});
    return ops::reshape(graph_, known,
                        {extents_.mask_rows, extents_.queries, extents_.masked_keys});
  }

  ir::Graph& graph_;
  const ir::Node& node_;
  const AttentionAttributes& a_;
  ir::AttentionOperands at_;
  ir::AttentionExtents extents_;
  DataType type_;
  ValueId lowest_;
};

bool is_joined(const ir::Node& node) {
  return std::get<AttentionAttributes>(node.attributes).joined;
}

// The same op over three operands instead of the one at this position.
std::vector<ValueId> parted(ir::Graph& graph, const ir::Node& node, std::ptrdiff_t at) {
  AttentionAttributes attributes = std::get<AttentionAttributes>(node.attributes);
  attributes.joined = false;
  std::vector<ValueId> inputs = node.inputs;
  const ValueId joined = inputs[static_cast<std::size_t>(at)];
  inputs.erase(inputs.begin() + at);
  const std::int64_t row = graph.type(joined).shape[2] / 3;
  for (std::int64_t i = 0; i < 3; ++i) {
    const ir::SliceAttributes third{2, i * row, row};
    inputs.insert(inputs.begin() + at + i, ops::apply1(graph, ir::Op::slice, third, {joined}));
  }
  return graph.node(ops::apply(graph, node.op, attributes, std::move(inputs))).outputs;
}

}  // namespace

std::vector<ValueId> compose_attention(ir::Graph& graph, const ir::Node& node) {
  if (is_joined(node)) return parted(graph, node, 0);
  return Heads(graph, node, false).forward();
}

std::vector<ValueId> compose_attention_gradient(ir::Graph& graph, const ir::Node& node) {
  if (!is_joined(node)) return Heads(graph, node, true).gradient();
  std::vector<ValueId> results = parted(graph, node, 1);
  const std::vector<ValueId> thirds(results.begin(), results.begin() + 3);
  results.erase(results.begin() + 1, results.begin() + 3);
  results[0] = ops::apply1(graph, ir::Op::concatenate, ir::AxisAttributes{2}, thirds);
  return results;
}

}  // namespace traingraph::passes
