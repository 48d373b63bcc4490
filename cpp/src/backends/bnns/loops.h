#pragma once

#include <cstddef>

#include "ir/scalar.h"

namespace traingraph::bnns {

// One scalar function over `count` elements of dense arrays. An operand that the function has not
// is null. The result may be an operand, but not overlap it otherwise.
using Loop = void (*)(const float* x, const float* y, float p, float q, float* result,
                      std::size_t count);

// By vDSP or vForce where they document exactly the table's function and give the same of a few
// numbers here, NaN and infinities among them; else the table's own formula as a loop.
Loop loop_of(ir::Scalar function);

}  // namespace traingraph::bnns
