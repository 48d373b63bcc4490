#include "ir/number_text.h"
#include "ops/emit.h"

namespace traingraph::ops {
namespace {

using ir::DropoutAttributes;
using ir::Type;

// x, step, where x is part of a larger batch its first row → x of the same type.
std::vector<Type> infer(const Inference& in) {
  in.expect_inputs(2, 3);
  const double rate = in.get<DropoutAttributes>().rate;
  if (!(rate >= 0 && rate < 1)) {
    in.fail("expected a rate of at least 0 and below 1 but got " + short_text(rate));
  }
  for (std::size_t i = 1; i < in.inputs.size(); ++i) {
    if (in.type(i).data_type == DataType::kInt64 && in.type(i).elements() == 1) continue;
    in.fail("expected one int64 number but got " + to_string(in.type(i)));
  }
  return {in.type(0)};
}

// The same mask over dy: it is computed again rather than stored.
void gradient(Gradient& g) {
  std::vector<ir::ValueId> inputs = g.node.inputs;
  inputs[0] = g.result_gradient();
  g.set(0, apply1(g.graph, ir::Op::dropout, g.get<DropoutAttributes>(), std::move(inputs)));
}

}  // namespace

const Definition dropout_definition{infer, gradient, {.mixed = Mixed::follows}};

}  // namespace traingraph::ops
