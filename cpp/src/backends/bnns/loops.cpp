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
void scaled_tanh(const float* x, const float*, float p, float q, float* result, std::size_t count) {
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

struct Entry {
  ir::Scalar function;
  Loop loop;
};

constexpr Entry kByAccelerate[] = {
    {ir::Scalar::add, add},
    {ir::Scalar::subtract, subtract},
    {ir::Scalar::multiply, multiply},
    {ir::Scalar::divide, divide},
    {ir::Scalar::negate, negate},
    {ir::Scalar::square, square},
    {ir::Scalar::scale, scale},
    {ir::Scalar::affine, affine},
    {ir::Scalar::multiply_add, multiply_add},
    {ir::Scalar::exp, by_vforce<vvexpf>},
    {ir::Scalar::log, by_vforce<vvlogf>},
    {ir::Scalar::sqrt, by_vforce<vvsqrtf>},
    {ir::Scalar::rsqrt, by_vforce<vvrsqrtf>},
    {ir::Scalar::reciprocal, by_vforce<vvrecf>},
    {ir::Scalar::tanh, scaled_tanh},
    {ir::Scalar::sigmoid, sigmoid},
};

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

// Whether both give the same of ordinary numbers and of others, also over an
// operand.
bool agree(Loop loop, Loop own) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr std::size_t kCount = 10;
  const float x[kCount] = {0.5f, 2, -1.5f, 0, kInfinity, -kInfinity, NAN, 1e-3f, 30, 1};
  const float y[kCount] = {3, -0.25f, 2, 7, 1, 0.5f, 1, NAN, 4, -kInfinity};
  float expected[kCount], apart[kCount], over_x[kCount], over_y[kCount];
  std::copy_n(x, kCount, over_x);
  std::copy_n(y, kCount, over_y);
  own(x, y, 1.25f, -0.5f, expected, kCount);
  loop(x, y, 1.25f, -0.5f, apart, kCount);
  loop(over_x, y, 1.25f, -0.5f, over_x, kCount);
  loop(x, over_y, 1.25f, -0.5f, over_y, kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    for (float found : {apart[i], over_x[i], over_y[i]}) {
      if (!near(found, expected[i])) return false;
    }
  }
  return true;
}

}  // namespace

Loop loop_of(ir::Scalar function) {
  const Loop own = own_loop(function);
  for (const Entry& entry : kByAccelerate) {
    if (entry.function == function && agree(entry.loop, own)) return entry.loop;
  }
  return own;
}

}  // namespace traingraph::bnns
