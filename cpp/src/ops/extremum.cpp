#include "ops/emit.h"

namespace traingraph::ops {
namespace {

using ir::ExtremumAttributes;
using ir::ScatterAttributes;
using ir::Type;

// x (…, D, …) → y and places (…, 1, …).
std::vector<Type> infer(const Inference& in) {
  in.expect_inputs(1, 1);
  const auto& a = in.get<ExtremumAttributes>();
  Type result = in.type(0);
  if (a.axis < 0 || a.axis >= result.rank()) {
    in.fail("expected an axis below " + std::to_string(result.rank()) + " but got " +
            std::to_string(a.axis));
  }
  std::int64_t& extent = result.shape[static_cast<std::size_t>(a.axis)];
  if (extent > INT32_MAX) {
    in.fail("expected at most " + std::to_string(INT32_MAX) + " elements along an axis but got " +
            to_string(result.shape));
  }
  extent = 1;
  if (a.axis == 0) result.batched = false;
  Type places = result;
  places.data_type = a.numbers ? DataType::kFloat32 : DataType::kInt32;
  return {result, places};
}

// dy at its place between zeros.
void gradient(Gradient& g) {
  const auto& a = g.get<ExtremumAttributes>();
  if (a.numbers || g.result_gradient() == ir::kNone) return;
  const Type x = g.graph.type(g.input(0));
  ScatterAttributes placing{a.axis, false, x.shape, x.batched};
  g.set(0,
        apply1(g.graph, ir::Op::scatter, std::move(placing), {g.result_gradient(), g.result(1)}));
}

}  // namespace

const Definition extremum_definition{infer, gradient, {.stays_finite = always}};

}  // namespace traingraph::ops
