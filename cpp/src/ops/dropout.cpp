#include "ops/emit.h"

namespace traingraph::ops {
namespace {

using ir::DropoutAttributes;
using ir::Type;

// x, step → x of the same type.
std::vector<Type> infer(const Inference& in) {
  in.expect_inputs(2, 2);
  const double rate = in.get<DropoutAttributes>().rate;
  if (!(rate >= 0 && rate < 1)) {
    in.fail("expected a rate of at least 0 and below 1 but got " + std::to_string(rate));
  }
  if (in.type(1).data_type != DataType::kInt64 || in.type(1).elements() != 1) {
    in.fail("expected one int64 step but got " + to_string(in.type(1)));
  }
  return {in.type(0)};
}

// The same mask over dy: it is computed again rather than stored.
void gradient(Gradient& g) {
  g.set(0, apply1(g.graph, ir::Op::dropout, g.get<DropoutAttributes>(),
                  {g.result_gradient(), g.input(1)}));
}

}  // namespace

const Definition dropout_definition{infer, gradient};

}  // namespace traingraph::ops
