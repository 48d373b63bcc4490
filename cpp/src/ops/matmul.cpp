// Matrix product with optional transposition and broadcast leading axes. Its gradients are two
// products.
#include "ops/batch_axis.h"
#include "ops/emit.h"

namespace traingraph::ops {
namespace {

using ir::MatmulAttributes;
using ir::Type;
using ir::ValueId;

// a (…, M, K) or transposed, b (…, K, N) or transposed → (…, M, N).
std::vector<Type> infer(const Inference& in) {
  const auto& attributes = in.get<MatmulAttributes>();
  in.expect_inputs(2, 2 + static_cast<std::size_t>(attributes.epilogue.inputs));
  const Type& a = in.type(0);
  const Type& b = in.type(1);
  if (a.rank() < 2 || b.rank() < 2) {
    in.fail("expected matrices but got shapes " + to_string(a.shape) + " and " +
            to_string(b.shape));
  }
  auto extent = [](const Type& type, bool transposed, int from_back) {
    const int index = transposed ? 3 - from_back : from_back;  // 1: columns, 2: rows
    return type.shape[type.shape.size() - static_cast<std::size_t>(index)];
  };
  const std::int64_t inner_a = extent(a, attributes.transpose_a, 1);
  const std::int64_t inner_b = extent(b, attributes.transpose_b, 2);
  if (inner_a != inner_b) {
    in.fail("expected equal inner extents but got " + to_string(a.shape) +
            (attributes.transpose_a ? " transposed" : "") + " and " + to_string(b.shape) +
            (attributes.transpose_b ? " transposed" : ""));
  }
  Type result;
  const bool stated = attributes.result_type != DataType::kInvalid;
  result.data_type = stated ? attributes.result_type : a.data_type;
  const Shape lead_a(a.shape.begin(), a.shape.end() - 2);
  const Shape lead_b(b.shape.begin(), b.shape.end() - 2);
  if (!broadcast_shapes(lead_a, lead_b, result.shape)) {
    in.fail("expected leading axes that broadcast but got " + to_string(a.shape) + " and " +
            to_string(b.shape));
  }
  result.shape.push_back(extent(a, attributes.transpose_a, 2));
  result.shape.push_back(extent(b, attributes.transpose_b, 1));
  // The batch survives as a leading axis, or as the rows of an untransposed left matrix.
  if (result.rank() > 2) {
    BatchAxis axis(result.shape);
    axis.add(a);
    axis.add(b);
    result.batched = axis.is_batch();
    if (axis.is_fixed()) in.fix_batch();
  } else {
    result.batched = a.batched && !attributes.transpose_a;
    if (b.batched || a.batched != result.batched) in.fix_batch();
  }
  return {result};
}

// y = alpha op(a) op(b):
// da = alpha dy op(b)ᵀ, db = alpha op(a)ᵀ dy, each transposed back where its operand was, and
// summed over leading axes that were broadcast.
void gradient(Gradient& g) {
  const auto& attributes = g.get<MatmulAttributes>();
  const bool ta = attributes.transpose_a;
  const bool tb = attributes.transpose_b;
  const double alpha = attributes.alpha;
  const ValueId dy = g.result_gradient();
  if (g.wants(0)) {
    const ValueId da = ta ? matmul(g.graph, g.input(1), dy, tb, true, alpha)
                          : matmul(g.graph, dy, g.input(1), false, !tb, alpha);
    g.set(0, reduce_to(g.graph, da, g.graph.type(g.input(0))));
  }
  if (g.wants(1)) {
    const ValueId db = tb ? matmul(g.graph, dy, g.input(0), true, ta, alpha)
                          : matmul(g.graph, g.input(0), dy, !ta, false, alpha);
    g.set(1, reduce_to(g.graph, db, g.graph.type(g.input(1))));
  }
}

}  // namespace

const Definition matmul_definition{
    infer, gradient, {.mixed = Mixed::product, .epilogue = epilogue_of<MatmulAttributes>}};

ValueId matmul(ir::Graph& graph, ValueId a, ValueId b, bool transpose_a, bool transpose_b,
               double alpha) {
  return apply1(graph, ir::Op::matmul,
                MatmulAttributes{alpha, transpose_a, transpose_b, {}, false, DataType::kInvalid},
                {a, b});
}

}  // namespace traingraph::ops
