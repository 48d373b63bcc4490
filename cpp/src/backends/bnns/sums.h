#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "backends/bnns/accelerate.h"

// Sums by vDSP. It adds in float32 in an order that Apple does not state, so a long sum is cut into
// blocks whose results are added in float64.
namespace traingraph::bnns {

// A vector of vDSP: `count` elements, `stride` apart.
struct Strided {
  const float* first;
  vDSP_Stride stride;

  const float* at(std::size_t index) const {
    return first + static_cast<vDSP_Stride>(index) * stride;
  }
  double value(std::size_t index) const { return static_cast<double>(*at(index)); }
};

// Adds part(begin, length) over all blocks.
template <class Part>
double summed_by_blocks(std::size_t count, const Part& part) {
  constexpr std::size_t kBlock = 2048;
  double total = 0;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    float result = 0;
    part(begin, static_cast<vDSP_Length>(std::min(kBlock, count - begin)), &result);
    total += static_cast<double>(result);
  }
  return total;
}

// Adds term(index) in float64 throughout: for what float32 cannot hold.
template <class Term>
double summed_in_double(std::size_t count, const Term& term) {
  double total = 0;
  for (std::size_t i = 0; i < count; ++i) total += term(i);
  return total;
}

inline double sum(Strided x, std::size_t count) {
  const double total =
      summed_by_blocks(count, [&](std::size_t begin, vDSP_Length length, float* result) {
        vDSP_sve(x.at(begin), x.stride, result, length);
      });
  if (std::isfinite(total)) return total;
  return summed_in_double(count, [&](std::size_t i) { return x.value(i); });
}

inline double sum_of_squares(Strided x, std::size_t count) {
  const double total =
      summed_by_blocks(count, [&](std::size_t begin, vDSP_Length length, float* result) {
        vDSP_svesq(x.at(begin), x.stride, result, length);
      });
  // Squares below the second bound may have been too small to be counted.
  if (total <= FLT_MAX && total >= 1e7 * FLT_MIN * static_cast<double>(count)) return total;
  return summed_in_double(count, [&](std::size_t i) { return x.value(i) * x.value(i); });
}

inline double dot(Strided x, Strided y, std::size_t count) {
  const double total =
      summed_by_blocks(count, [&](std::size_t begin, vDSP_Length length, float* result) {
        vDSP_dotpr(x.at(begin), x.stride, y.at(begin), y.stride, result, length);
      });
  if (std::isfinite(total)) return total;
  return summed_in_double(count, [&](std::size_t i) { return x.value(i) * y.value(i); });
}

}  // namespace traingraph::bnns
