#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ir/embedding_attributes.h"

namespace traingraph {

// (Σ |x|^order)^(1/order), over the largest one so that no power leaves float64's range.
template <class T>
double row_norm_of(double order, std::int64_t count, const T* row) {
  double largest = 0;
  bool has_nan = false;
  for (std::int64_t k = 0; k < count; ++k) {
    const double size = std::abs(static_cast<double>(row[k]));
    has_nan = has_nan || std::isnan(size);
    largest = std::max(largest, size);
  }
  if (has_nan) return std::nan("");
  if (largest == 0 || std::isinf(largest) || std::isinf(order)) return largest;
  double sum = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    const double part = std::abs(static_cast<double>(row[k])) / largest;
    sum += order == 2 ? part * part : order == 1 ? part : std::pow(part, order);
  }
  return largest * std::pow(sum, 1 / order);
}

// Scales a row of a larger norm down, a little further than to the maximum, so that rounding leaves
// none above it. A norm that is no number changes nothing.
template <class T>
void limit_row(const ir::RowLimitAttributes& a, std::int64_t count, T* row) {
  const double norm = row_norm_of(a.order, count, row);
  if (!(norm > a.maximum)) return;
  const double scale = a.maximum / (norm + 1e-7);
  for (std::int64_t k = 0; k < count; ++k) {
    row[k] = static_cast<T>(static_cast<double>(row[k]) * scale);
  }
}

}  // namespace traingraph
