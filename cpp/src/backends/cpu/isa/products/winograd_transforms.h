// One-dimensional transforms of Winograd's F(4, 3), a polynomial product by its values at 0, ±√½,
// ±√2 and infinity. These points err three times less than 0, ±1, ±2 do, because what belongs to
// one of them is as large as what belongs to its reciprocal.
// Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (2016); the matrices
// follow from the points by the construction of Toom and Cook.
#pragma once

#include "backends/cpu/isa/vector.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {

inline constexpr float kNear = 0.70710678118654752f, kFar = 1.4142135623730950f;  // √½, √2

// (even + odd, even - odd): the values at a point and at its negative.
TRAINGRAPH_INLINE void both_signs(Vector even, Vector odd, Vector& plus, Vector& minus) {
  plus = even + odd;
  minus = even - odd;
}

// Bᵀ: six elements of the source.
TRAINGRAPH_INLINE void transform_source(const Vector (&d)[6], Vector (&v)[6]) {
  v[0] = d[0] - 2.5f * d[2] + d[4];
  both_signs(d[4] - 2.0f * d[2], kNear * (d[3] - 2.0f * d[1]), v[1], v[2]);
  both_signs(d[4] - 0.5f * d[2], kFar * (d[3] - 0.5f * d[1]), v[3], v[4]);
  v[5] = d[1] - 2.5f * d[3] + d[5];
}

// G: three weights.
TRAINGRAPH_INLINE void transform_weights(const Vector (&g)[3], Vector (&u)[6]) {
  constexpr float kNearScale = -2.0f / 3, kFarScale = 1.0f / 6;
  u[0] = g[0];
  both_signs(kNearScale * (g[0] + 0.5f * g[2]), kNearScale * kNear * g[1], u[1], u[2]);
  both_signs(kFarScale * (g[0] + 2.0f * g[2]), kFarScale * kFar * g[1], u[3], u[4]);
  u[5] = g[2];
}

// Gᵀ: back to three gradients of weights.
TRAINGRAPH_INLINE void transform_weights_back(const Vector (&u)[6], Vector (&g)[3]) {
  constexpr float kNearScale = -2.0f / 3, kFarScale = 1.0f / 6;
  const Vector near = kNearScale * (u[1] + u[2]), far = kFarScale * (u[3] + u[4]);
  g[0] = u[0] + near + far;
  g[1] = kNearScale * kNear * (u[1] - u[2]) + kFarScale * kFar * (u[3] - u[4]);
  g[2] = 0.5f * near + 2.0f * far + u[5];
}

// Aᵀ: four results.
TRAINGRAPH_INLINE void transform_back(const Vector (&m)[6], Vector (&y)[4]) {
  const Vector near = m[1] + m[2], far = m[3] + m[4];
  const Vector near_odd = kNear * (m[1] - m[2]), far_odd = kFar * (m[3] - m[4]);
  y[0] = m[0] + near + far;
  y[1] = near_odd + far_odd;
  y[2] = 0.5f * near + 2.0f * far;
  y[3] = 0.5f * near_odd + 2.0f * far_odd + m[5];
}

// A: four gradients of results.
TRAINGRAPH_INLINE void transform_gradient(const Vector (&y)[4], Vector (&m)[6]) {
  m[0] = y[0];
  both_signs(y[0] + 0.5f * y[2], kNear * (y[1] + 0.5f * y[3]), m[1], m[2]);
  both_signs(y[0] + 2.0f * y[2], kFar * (y[1] + 2.0f * y[3]), m[3], m[4]);
  m[5] = y[3];
}

// The same over rows, then over columns: in (kIn, kIn) → out (kOut, kOut), where at(i, j) reads an
// element of one and put(i, j, v) takes one of the other.
template <int kIn, int kOut, class At, class Put>
TRAINGRAPH_INLINE void transform_tile(void (*transform)(const Vector (&)[kIn], Vector (&)[kOut]),
                                      const At& at, const Put& put) {
  Vector half[kOut][kIn];
#pragma GCC unroll 6
  for (int j = 0; j < kIn; ++j) {
    Vector in[kIn], out[kOut];
#pragma GCC unroll 6
    for (int i = 0; i < kIn; ++i) in[i] = at(i, j);
    transform(in, out);
#pragma GCC unroll 6
    for (int i = 0; i < kOut; ++i) half[i][j] = out[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < kOut; ++i) {
    Vector out[kOut];
    transform(half[i], out);
#pragma GCC unroll 6
    for (int j = 0; j < kOut; ++j) put(i, j, out[j]);
  }
}

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
