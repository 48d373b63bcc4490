#pragma once

#include "backends/cpu/isa/exponentials.h"
#include "backends/cpu/isa/pow.h"
#include "backends/cpu/isa/trigonometry.h"
#include "ir/scalar_value.h"

// Elementary functions that the compiler can inline into vectorised loops: no calls, no branches,
// no tables. Errors stay within about 2 ulp (expm1, log1p, tanh and what is made of them: 4); NaN
// propagates, infinities and denormals are exact limits. Everything here is per instruction level.
namespace traingraph::cpu::TRAINGRAPH_ISA {

struct Math : Exponentials, Trigonometry {
  static inline float sqrt(float x) { return __builtin_sqrtf(x); }
  static inline float pow(float x, float y) { return TRAINGRAPH_ISA::pow(x, y); }

  // Half to even. From 2^23 on numbers are whole.
  static inline float rint(float x) {
    const float size = __builtin_fabsf(x);
    const float whole = (size + 8388608.0f) - 8388608.0f;
    return size < 8388608.0f ? __builtin_copysignf(whole, x) : x;
  }
  static inline float floor(float x) {
    const float near = rint(x);
    return near > x ? near - 1.0f : near;
  }
  static inline float ceil(float x) {
    const float near = rint(x);
    return near < x ? near + 1.0f : near;
  }

  static inline float gelu_derivative(float x) { return ir::scalar::gelu_derivative<Math>(x); }
};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
