// Attention of several heads without a value of L * S elements: its results are the output and two
// numbers per query and head, from which the gradient works probabilities out again.
#include <traingraph/errors.h>

#include "ir/number_text.h"
#include "ops/emit.h"

namespace traingraph::ops {
namespace {

using ir::AttentionAttributes;
using ir::AttentionOperands;
using ir::Type;
using ir::ValueId;

void expect_shape(const Inference& in, std::size_t i, const char* what, const Shape& expected) {
  if (in.type(i).shape == expected) return;
  in.fail("expected " + std::string(what) + " " + to_string(expected) + " but got " +
          to_string(in.type(i).shape));
}

// Scores, and what is added to them, have float32 where operands have 16 bits.
DataType full_type(DataType type) { return ir::is_half(type) ? DataType::kFloat32 : type; }

void check_types(const Inference& in, const AttentionOperands& at) {
  const auto& a = in.get<AttentionAttributes>();
  const DataType type = in.type(at.q).data_type;
  for (std::size_t i : {at.k, at.v}) {
    if (in.type(i).data_type == type) continue;
    in.fail(std::string("expected keys and values of type ") + name(type) + " but got " +
            name(in.type(i).data_type));
  }
  if (a.has_key_mask && in.type(at.key_mask).data_type != DataType::kBoolean) {
    in.fail(std::string("expected a key mask of bool but got ") +
            name(in.type(at.key_mask).data_type));
  }
  if (!a.has_mask) return;
  const DataType mask = in.type(at.mask).data_type;
  const DataType full = full_type(type);
  if (mask == DataType::kBoolean || mask == full) return;
  in.fail(std::string("expected a mask of bool or ") + name(full) + " but got " + name(mask));
}

// q (N, L, H d), k and v (N, S, H d), key mask (N, M), mask (1 or N H, L, M) with M <= S.
void check_operands(const Inference& in, const AttentionOperands& at) {
  const auto& a = in.get<AttentionAttributes>();
  if (!(a.rate >= 0 && a.rate < 1)) {
    in.fail("expected a rate of at least 0 and below 1 but got " + short_text(a.rate));
  }
  const std::size_t others = (at.dy == at.q ? at.v : at.logarithm) + 1 +
                             (a.has_key_mask ? 1u : 0u) + (a.has_mask ? 1u : 0u) +
                             (a.rate > 0 ? 1u : 0u);
  in.expect_inputs(others, others + (a.rate > 0 ? 1 : 0));
  for (std::size_t i : {at.q, at.k, at.v}) in.expect_rank(i, 3, "queries, keys and values");
  const Shape& q = in.type(at.q).shape;
  if (a.heads < 1 || q[2] % (a.heads * (a.joined ? 3 : 1)) != 0) {
    in.fail("expected as many elements per query as " + std::to_string(a.heads) +
            (a.joined ? " heads of queries, keys and values divide but got "
                      : " heads divide but got ") +
            std::to_string(q[2]));
  }
  const std::int64_t keys = in.type(at.k).shape[1];
  expect_shape(in, at.k, "keys", {q[0], keys, q[2]});
  expect_shape(in, at.v, "values", {q[0], keys, q[2]});
  check_types(in, at);
  std::int64_t masked = -1;
  if (a.has_key_mask) {
    in.expect_rank(at.key_mask, 2, "a key mask");
    masked = in.type(at.key_mask).shape[1];
    expect_shape(in, at.key_mask, "a key mask", {q[0], masked});
  }
  if (a.has_mask) {
    in.expect_rank(at.mask, 3, "a mask");
    const Shape& mask = in.type(at.mask).shape;
    if (masked < 0) masked = mask[2];
    expect_shape(in, at.mask, "a mask", {mask[0] == 1 ? 1 : q[0] * a.heads, q[1], masked});
  }
  if (masked > keys) {
    in.fail("expected masks of at most " + std::to_string(keys) + " keys but got " +
            std::to_string(masked));
  }
  for (std::size_t i : {at.step, at.first_row}) {
    if (i == 0) continue;
    const Type& number = in.type(i);
    if (number.data_type == DataType::kInt64 && number.elements() == 1) continue;
    in.fail("expected one int64 number but got " + to_string(number));
  }
}

// Of y, from that of q.
Type result_type(const AttentionAttributes& a, Type q) {
  if (a.joined) q.shape[2] /= 3;
  return q;
}

std::vector<Type> infer(const Inference& in) {
  const auto& a = in.get<AttentionAttributes>();
  const AttentionOperands at(a, false, in.inputs.size());
  check_operands(in, at);
  const Type& q = in.type(at.q);
  const bool batched = q.batched;
  bool fixed = in.type(at.k).batched != batched || in.type(at.v).batched != batched ||
               (a.has_key_mask && in.type(at.key_mask).batched != batched);
  if (a.has_mask) {
    // A mask per sample and head has the batch in its rows only where there is one head.
    const Type& mask = in.type(at.mask);
    const bool per_sample = a.heads == 1 && batched && mask.batched;
    const bool shared = mask.shape[0] == 1 && !mask.batched;
    fixed = fixed || (batched && !per_sample && !shared) || (mask.batched && !batched);
  }
  if (fixed) in.fix_batch();
  const Type per_query{full_type(q.data_type), {q.shape[0], a.heads, q.shape[1]}, batched};
  return {result_type(a, q), per_query, per_query};
}

std::vector<Type> infer_gradient(const Inference& in) {
  const auto& a = in.get<AttentionAttributes>();
  const AttentionOperands at(a, true, in.inputs.size());
  check_operands(in, at);
  const Type& q = in.type(at.q);
  const Shape result = result_type(a, q).shape;
  expect_shape(in, at.dy, "a gradient", result);
  expect_shape(in, at.y, "a result", result);
  const Shape per_query = {q.shape[0], a.heads, q.shape[1]};
  expect_shape(in, at.largest, "largest scores", per_query);
  expect_shape(in, at.logarithm, "logarithms", per_query);
  std::vector<Type> results = {q};
  if (!a.joined) results.insert(results.end(), {in.type(at.k), in.type(at.v)});
  if (a.gives_mask_gradient) {
    if (!a.has_mask || !is_floating_point(in.type(at.mask).data_type)) {
      in.fail("expected a mask of numbers, whose gradient is asked for");
    }
    results.push_back(in.type(at.mask));
  }
  return results;
}

// With p = e^(s - max s - logarithm), m what dropout leaves of 1 and g = p (m dy vᵀ - Σ dy y), the
// sum over a row: dv = (p m)ᵀ dy, dq = scale g k, dk = scale gᵀ q, dmask = g.
void gradient(Gradient& g) {
  AttentionAttributes a = g.get<AttentionAttributes>();
  const AttentionOperands at(a, false, g.node.inputs.size());
  const ValueId dy = g.result_gradient(0);
  if (g.result_gradient(1) != ir::kNone || g.result_gradient(2) != ir::kNone) {
    throw Unsupported("[attention] largest scores and logarithms have no gradient" +
                      ir::where(g.graph, g.node));
  }
  if (dy == ir::kNone) return;
  a.gives_mask_gradient =
      a.has_mask && g.wants(at.mask) && is_floating_point(g.graph.type(g.input(at.mask)).data_type);
  const auto others = g.node.inputs.begin() + static_cast<std::ptrdiff_t>(at.v) + 1;
  std::vector<ValueId> inputs = {dy};
  inputs.insert(inputs.end(), g.node.inputs.begin(), others);
  inputs.insert(inputs.end(), {g.result(0), g.result(1), g.result(2)});
  inputs.insert(inputs.end(), others, g.node.inputs.end());
  const ir::NodeId node = apply(g.graph, ir::Op::attention_gradient, a, std::move(inputs));
  const std::vector<ValueId> results = g.graph.node(node).outputs;
  for (std::size_t i = 0; i <= at.v; ++i) {
    if (g.wants(i)) g.set(i, results[i]);
  }
  if (a.gives_mask_gradient) g.set(at.mask, results.back());
}

}  // namespace

const Definition attention_definition{infer, gradient, {.mixed = Mixed::product, .half_inputs = 3}};
const Definition attention_gradient_definition{
    infer_gradient, nullptr, {.mixed = Mixed::product, .half_inputs = 5, .half_outputs = 3}};

}  // namespace traingraph::ops
