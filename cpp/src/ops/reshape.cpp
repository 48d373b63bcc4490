// Ops that keep every element's bytes: reshape (a view of the dense layout) and reorder (the same
// tensor in another layout).
#include "ops/emit.h"

namespace traingraph::ops {
namespace {

using ir::ReshapeAttributes;
using ir::Type;

std::vector<Type> infer_reshape(const Inference& in) {
  in.expect_inputs(1, 1);
  const auto& a = in.get<ReshapeAttributes>();
  const Type& source = in.type(0);
  if (element_count(a.shape) != source.elements()) {
    in.fail("expected " + std::to_string(source.elements()) + " elements as in " +
            to_string(source.shape) + " but got " + std::to_string(element_count(a.shape)) +
            " in " + to_string(a.shape));
  }
  if (source.batched && !a.batched && source.elements() > 0) in.fix_batch();
  return {Type{source.data_type, a.shape, a.batched}};
}

void gradient_of_reshape(Gradient& g) {
  const Type source = g.graph.type(g.input(0));
  g.set(0, reshape(g.graph, g.result_gradient(), source.shape, source.batched));
}

std::vector<Type> infer_reorder(const Inference& in) {
  in.expect_inputs(1, 1);
  return {in.type(0)};
}

}  // namespace

const Definition reshape_definition{
    infer_reshape, gradient_of_reshape, {.mixed = Mixed::follows, .stays_finite = always}};
const Definition reorder_definition{infer_reorder, nullptr, {.stays_finite = always}};

ir::ValueId reshape(ir::Graph& graph, ir::ValueId x, Shape shape, bool batched) {
  if (graph.type(x).shape == shape) return x;
  return apply1(graph, ir::Op::reshape, ReshapeAttributes{std::move(shape), batched}, {x});
}

}  // namespace traingraph::ops
