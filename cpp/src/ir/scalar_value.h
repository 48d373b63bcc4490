#pragma once

#include "ir/host_device.h"
#include "ir/scalar.h"

// What a policy M supplies over one operand, under the names of the standard library; pow(x, y) and
// gelu_derivative(x) besides.
// clang-format off
#define TRAINGRAPH_MATH_OF_ONE(X) \
  X(exp) X(exp2) X(expm1) X(log) X(log2) X(log1p) X(sqrt) \
  X(floor) X(ceil) X(rint) \
  X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) \
  X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh) X(erf)
// clang-format on

// The value column of scalar.def as inlined templates over M and T, so that a host loop, a
// vectorised loop, a device kernel and a shader share one table.
namespace traingraph::ir::scalar {

#define TRAINGRAPH_SCALAR(name, arity, value_expression, gradient_x, gradient_y)               \
  template <class M>                                                                           \
  struct name {                                                                                \
    template <class T>                                                                         \
    TRAINGRAPH_HOST_DEVICE static inline T value([[maybe_unused]] T x, [[maybe_unused]] T y,   \
                                                 [[maybe_unused]] T p, [[maybe_unused]] T q) { \
      return value_expression;                                                                 \
    }                                                                                          \
  };
#include "ir/scalar.def"
#undef TRAINGRAPH_SCALAR

// d gelu / dx of the tanh form: with u = c (x + k x³), t = tanh u,
// (1 + t) / 2 + x (1 - t²) c (1 + 3 k x²) / 2. Where tanh has reached ±1 the second term is 0, also
// when x² has overflowed. A macro, because a compiler at run time reads its text.
#define TRAINGRAPH_GELU_DERIVATIVE                                                          \
  const T c = T(0.7978845608), k = T(0.044715);                                             \
  const T t = M::tanh(c * (x + k * x * x * x));                                             \
  const T slope = T(1) - t * t;                                                             \
  const T bend = slope == T(0) ? T(0) : T(0.5) * x * slope * c * (T(1) + T(3) * k * x * x); \
  return T(0.5) * (T(1) + t) + bend;
template <class M, class T>
TRAINGRAPH_HOST_DEVICE inline T gelu_derivative(T x) {
  TRAINGRAPH_GELU_DERIVATIVE
}

// One function chosen at run time.
template <class M, class T>
TRAINGRAPH_HOST_DEVICE inline T evaluate(Scalar function, T x, T y, T p, T q) {
  switch (function) {
#define TRAINGRAPH_SCALAR(name, arity, value_expression, gradient_x, gradient_y) \
  case Scalar::name:                                                             \
    return scalar::name<M>::value(x, y, p, q);
#include "ir/scalar.def"
#undef TRAINGRAPH_SCALAR
  }
  return T(0);
}

}  // namespace traingraph::ir::scalar
