// Writes scalar lists as expressions over the functions of scalar.def: sigmoid(x) adds an
// instruction and stands for its register.
#pragma once

#include "ir/scalar.h"

namespace traingraph::ir {

struct Expression {
  ScalarList* list;
  int reg;
};

// One builder per row of the table, so that columns and lists can name them. Immediates follow the
// operands.
namespace build {
#define TRAINGRAPH_SCALAR(name, arity, value, gradient_x, gradient_y)                 \
  constexpr Expression name(Expression x, double p = 0, double q = 0) {               \
    return {x.list, x.list->add(Scalar::name, arity > 0 ? x.reg : -1, -1, p, q)};     \
  }                                                                                   \
  constexpr Expression name(Expression x, Expression y, double p = 0, double q = 0) { \
    return {x.list, x.list->add(Scalar::name, x.reg, y.reg, p, q)};                   \
  }
#include "ir/scalar.def"
#undef TRAINGRAPH_SCALAR
}  // namespace build

}  // namespace traingraph::ir
