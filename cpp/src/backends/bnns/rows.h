#pragma once

#include "backends/bnns/sums.h"

// Rows along one axis, as softmax and cross entropy read them: vForce takes dense arrays only, so a
// row with gaps is gathered first.
namespace traingraph::bnns {

// Element k of row (o, i) lies at (o * extent + k) * inner + i.
struct Rows {
  std::size_t outer = 1, extent = 1, inner = 1;

  Rows(const Shape& shape, int axis) {
    for (std::size_t k = 0; k < shape.size(); ++k) {
      const auto size = static_cast<std::size_t>(shape[k]);
      if (k < static_cast<std::size_t>(axis)) outer *= size;
      if (k == static_cast<std::size_t>(axis)) extent = size;
      if (k > static_cast<std::size_t>(axis)) inner *= size;
    }
  }

  std::size_t count() const { return outer * inner; }
  std::size_t first(std::size_t row) const { return row / inner * extent * inner + row % inner; }
  Strided row(const float* x, std::size_t at) const {
    return {x + first(at), static_cast<vDSP_Stride>(inner)};
  }
  // The row's elements side by side.
  void gather(const float* x, std::size_t at, float* to) const {
    const float* from = x + first(at);
    for (std::size_t k = 0; k < extent; ++k) to[k] = from[k * inner];
  }
  void scatter(const float* from, std::size_t at, float* y) const {
    float* to = y + first(at);
    for (std::size_t k = 0; k < extent; ++k) to[k * inner] = from[k];
  }
};

inline void exponentials(float* row, std::size_t count) {
  const int length = static_cast<int>(count);
  vvexpf(row, row, &length);
}

// Subtracts the largest element from a dense row and returns it.
inline float shift_by_largest(float* row, std::size_t count) {
  float largest = 0;
  vDSP_maxv(row, 1, &largest, count);
  const float shift = -largest;
  vDSP_vsadd(row, 1, &shift, row, 1, count);
  return largest;
}

}  // namespace traingraph::bnns
