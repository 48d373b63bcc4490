// The activations of activations.def as makers of scalar lists.
#pragma once

#include "ir/scalar_expression.h"

namespace traingraph::ir {

struct ActivationRow {
  const char* name;
  const char* description;
  float a, b;  // defaults
  int parameters;
  Expression (*make)(Expression x, double a, double b);

  constexpr ScalarList list(double of_a, double of_b) const {
    ScalarList list{1, {}, {}};
    list.results = {make({&list, 0}, of_a, of_b).reg};
    return list;
  }
};

namespace build {
constexpr Expression clipped_if(bool condition, Expression x) {
  return condition ? clip(x, -1, 1) : x;
}
constexpr Expression times_rest(Expression s) { return multiply(s, affine(s, -1, 2)); }
constexpr Expression over_rest(Expression t) { return multiply(t, reciprocal(affine(t, -1, 2))); }
// max(x, 0) + y, with half of the gradient at 0
constexpr Expression plus_positive(Expression x, Expression y) {
  return add(maximum(x, constant(x)), y);
}
// x + sqrt(x² + b) of x >= 0; beyond 1e18 b is far below the last bit
constexpr Expression plus_root(Expression x, double b) {
  return add(x, sqrt(affine(square(clip(x, 0, 1e18)), 1, b)));
}

#define TRAINGRAPH_ACTIVATION(name, description, default_a, default_b, parameters, list) \
  constexpr Expression make_##name(Expression x, [[maybe_unused]] double a,              \
                                   [[maybe_unused]] double b) {                          \
    return list;                                                                         \
  }
#include "ir/activations.def"
#undef TRAINGRAPH_ACTIVATION
}  // namespace build

constexpr ActivationRow kActivations[] = {
#define TRAINGRAPH_ACTIVATION(name, description, default_a, default_b, parameters, list) \
  {#name, description, default_a, default_b, parameters, build::make_##name},
#include "ir/activations.def"
#undef TRAINGRAPH_ACTIVATION
};

}  // namespace traingraph::ir
