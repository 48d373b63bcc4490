#include "backends/bnns/loops.h"

#include <Accelerate/Accelerate.h>

#include "backends/reference/call.h"
#include "ir/scalar_value.h"

namespace traingraph::bnns {
namespace {

// --- by Accelerate -----------------------------------------------------------------------------
// Comparisons are missing on purpose: vDSP's thresholds, limits, minima and maxima do not say what
// they make of NaN, or make a number of it.

using VForce = void (*)(float*, const float*, const int*);

template <VForce kFunction>
void by_vforce(const float* x, const float*, float, float, float* result, std::size_t count) {
  const int length = static_cast<int>(count);
  kFunction(result, x, &length);
}

void add(const float* x, const float* y, float, float, float* result, std::size_t count) {
  vDSP_vadd(x, 1, y, 1, result, 1, count);
}
// vDSP_vsub and vDSP_vdiv take their second operand first.
void subtract(const float* x, const float* y, float, float, float* result, std::size_t count) {
  vDSP_vsub(y, 1, x, 1, result, 1, count);
}
void divide(const float* x, const float* y, float, float, float* result, std::size_t count) {
  vDSP_vdiv(y, 1, x, 1, result, 1, count);
}
void multiply(const float* x, const float* y, float, float, float* result, std::size_t count) {
  vDSP_vmul(x, 1, y, 1, result, 1, count);
}
void negate(const float* x, const float*, float, float, float* result, std::size_t count) {
  vDSP_vneg(x, 1, result, 1, count);
}
void square(const float* x, const float*, float, float, float* result, std::size_t count) {
  vDSP_vsq(x, 1, result, 1, count);
}
void scale(const float* x, const float*, float p, float, float* result, std::size_t count) {
  vDSP_vsmul(x, 1, &p, result, 1, count);
}
void affine(const float* x, const float*, float p, float q, float* result, std::size_t count) {
  vDSP_vsmsa(x, 1, &p, &q, result, 1, count);
}
void multiply_add(const float* x, const float* y, float p, float q, float* result,
                  std::size_t count) {
  vDSP_vsmsma(x, 1, &p, y, 1, &q, result, 1, count);
}
void tanh(const float* x, const float*, float p, float q, float* result, std::size_t count) {
  vDSP_vsmul(x, 1, &q, result, 1, count);
  by_vforce<vvtanhf>(result, nullptr, 0, 0, result, count);
  vDSP_vsmul(result, 1, &p, result, 1, count);
}
void sigmoid(const float* x, const float*, float, float, float* result, std::size_t count) {
  const float one = 1;
  vDSP_vneg(x, 1, result, 1, count);
  by_vforce<vvexpf>(result, nullptr, 0, 0, result, count);
  vDSP_vsadd(result, 1, &one, result, 1, count);
  by_vforce<vvrecf>(result, nullptr, 0, 0, result, count);
}

// Null where the loop below has to do.
Loop by_accelerate(ir::Scalar function) {
  switch (function) {
    case ir::Scalar::add:
      return bnns::add;
    case ir::Scalar::subtract:
      return bnns::subtract;
    case ir::Scalar::multiply:
      return bnns::multiply;
    case ir::Scalar::divide:
      return bnns::divide;
    case ir::Scalar::negate:
      return bnns::negate;
    case ir::Scalar::square:
      return bnns::square;
    case ir::Scalar::scale:
      return bnns::scale;
    case ir::Scalar::affine:
      return bnns::affine;
    case ir::Scalar::multiply_add:
      return bnns::multiply_add;
    case ir::Scalar::exp:
      return by_vforce<vvexpf>;
    case ir::Scalar::log:
      return by_vforce<vvlogf>;
    case ir::Scalar::sqrt:
      return by_vforce<vvsqrtf>;
    case ir::Scalar::rsqrt:
      return by_vforce<vvrsqrtf>;
    case ir::Scalar::reciprocal:
      return by_vforce<vvrecf>;
    case ir::Scalar::tanh:
      return bnns::tanh;
    case ir::Scalar::sigmoid:
      return bnns::sigmoid;
    default:
      return nullptr;
  }
}

// --- the table's own formulas ------------------------------------------------------------------

template <class Function, int kArity>
void own(const float* x, const float* y, float p, float q, float* result, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float first = kArity >= 1 ? x[i] : 0.0f;
    const float second = kArity == 2 ? y[i] : 0.0f;
    result[i] = Function::value(first, second, p, q);
  }
}

Loop own_loop(ir::Scalar function) {
  switch (function) {
#define TRAINGRAPH_SCALAR(name, arity, value, gradient_x, gradient_y) \
  case ir::Scalar::name:                                              \
    return own<ir::scalar::name<reference::StandardMath>, arity>;
#include "ir/scalar.def"
#undef TRAINGRAPH_SCALAR
  }
  return nullptr;
}

}  // namespace

Loop loop_of(ir::Scalar function) {
  const Loop loop = by_accelerate(function);
  return loop != nullptr ? loop : own_loop(function);
}

}  // namespace traingraph::bnns
