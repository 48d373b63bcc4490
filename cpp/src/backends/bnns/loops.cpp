#include "backends/bnns/loops.h"

#include <Accelerate/Accelerate.h>

#include <algorithm>
#include <cmath>
#include <limits>

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

// --- which one ---------------------------------------------------------------------------------

bool near(float found, float expected) {
  if (std::isnan(expected)) return std::isnan(found);
  if (std::isinf(expected)) return found == expected;
  return std::fabs(found - expected) <= 1e-5f * std::fmax(1.0f, std::fabs(expected));
}

// Whether both give the same of ordinary numbers and of others, also in place.
bool agree(Loop loop, Loop own) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr std::size_t kCount = 10;
  const float x[kCount] = {0.5f, 2, -1.5f, 0, kInfinity, -kInfinity, NAN, 1e-3f, 30, 1};
  const float y[kCount] = {3, -0.25f, 2, 7, 1, 0.5f, 1, NAN, 4, -kInfinity};
  float expected[kCount], apart[kCount], in_place[kCount];
  std::copy_n(x, kCount, in_place);
  own(x, y, 1.25f, -0.5f, expected, kCount);
  loop(x, y, 1.25f, -0.5f, apart, kCount);
  loop(in_place, y, 1.25f, -0.5f, in_place, kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    if (!near(apart[i], expected[i]) || !near(in_place[i], expected[i])) return false;
  }
  return true;
}

}  // namespace

Loop loop_of(ir::Scalar function) {
  const Loop loop = by_accelerate(function), own = own_loop(function);
  return loop != nullptr && agree(loop, own) ? loop : own;
}

}  // namespace traingraph::bnns
