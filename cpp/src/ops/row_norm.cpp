// Rows of the last axes minus their mean, over their deviation, and the gradient of that.
#include <traingraph/errors.h>

#include "ops/op.h"

namespace traingraph::ops {
namespace {

using ir::RowNormAttributes;
using ir::Type;

int checked_axis(const Inference& in) {
  const int axis = in.get<RowNormAttributes>().axis;
  if (axis < 0 || axis >= in.type(0).rank()) {
    in.fail("expected an axis below " + std::to_string(in.type(0).rank()) + " for shape " +
            to_string(in.type(0).shape) + " but got " + std::to_string(axis));
  }
  if (axis == 0 && in.type(0).batched) in.fix_batch();
  return axis;
}

// x (…, row) → y of its shape; mean, inverse_deviation = 1 / sqrt(variance + epsilon) and variance,
// biased, with extents of 1 along the row, which are float32 where x is of 16 bits
std::vector<Type> infer(const Inference& in) {
  in.expect_inputs(1, 1);
  const int axis = checked_axis(in);
  Type statistics = in.type(0);
  if (ir::is_half(statistics.data_type)) statistics.data_type = DataType::kFloat32;
  for (int k = axis; k < statistics.rank(); ++k) statistics.shape[static_cast<std::size_t>(k)] = 1;
  if (axis == 0) statistics.batched = false;
  return {in.type(0), statistics, statistics, statistics};
}

// dy, x → dx, overwritten. The statistics are found again from x, so that what a row of few
// elements leaves of its gradient is exact.
std::vector<Type> infer_gradient(const Inference& in) {
  in.expect_inputs(2, 2);
  checked_axis(in);
  if (in.type(0).shape != in.type(1).shape) {
    in.fail("expected a gradient " + to_string(in.type(1).shape) + " but got " +
            to_string(in.type(0).shape));
  }
  return {in.type(1)};
}

// As results the statistics are for running ones only, through which nothing flows.
void gradient(Gradient& g) {
  for (std::size_t i = 1; i < 4; ++i) {
    if (g.result_gradient(i) != ir::kNone) {
      throw Unsupported("[row_norm] the statistics have no gradient" + ir::where(g.graph, g.node));
    }
  }
  g.set(0, apply1(g.graph, ir::Op::row_norm_gradient, g.get<RowNormAttributes>(),
                  {g.result_gradient(), g.input(0)}));
}

}  // namespace

const Definition row_norm_definition{infer, gradient, {.mixed = Mixed::follows}};
const Definition row_norm_gradient_definition{
    infer_gradient, nullptr, {.mixed = Mixed::follows, .follows_input = 1}};

}  // namespace traingraph::ops
