#pragma once

#include "ir/scalar.h"

// Losses of single elements over a prediction y and a label t, registers of a list: those that ML
// Compute's layer and MPS's kernels write alike. Each returns the register of its result.
namespace traingraph {

// -t log y, 0 where t is, whatever y is.
inline int add_categorical_loss(ir::ScalarList& list, int y, int t) {
  return list.add(ir::Scalar::negate, list.add(ir::Scalar::times_log, t, y));
}

// max(1 - side y, 0)
inline int add_hinge_loss(ir::ScalarList& list, int y, int side) {
  const int product = list.add(ir::Scalar::label_product, y, side);
  return list.add(ir::Scalar::relu, list.add(ir::Scalar::affine, product, -1, -1, 1));
}

// -t log(y + ε) - (1 - t) log(1 - y + ε)
inline int add_log_loss(ir::ScalarList& list, int y, int t, double epsilon) {
  const int yes = list.add(ir::Scalar::affine, y, -1, 1, epsilon);
  // 1 - y is exact near 1, 1 + ε is not.
  const int apart = list.add(ir::Scalar::affine, y, -1, -1, 1);
  const int no = list.add(ir::Scalar::affine, apart, -1, 1, epsilon);
  const int rest = list.add(ir::Scalar::affine, t, -1, -1, 1);
  return list.add(ir::Scalar::multiply_add, list.add(ir::Scalar::times_log, t, yes),
                  list.add(ir::Scalar::times_log, rest, no), -1, -1);
}

}  // namespace traingraph
