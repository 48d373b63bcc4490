// Row norm and its gradient, row by row with statistics in float64.
#include "backends/reference/call.h"

namespace traingraph::reference {
namespace {

struct RowStatistics {
  double mean, variance, inverse;
};

template <class T>
RowStatistics statistics_of(const T* x, std::int64_t count, double epsilon) {
  const auto n = static_cast<double>(count);
  double sum = 0, squares = 0;
  for (std::int64_t k = 0; k < count; ++k) sum += static_cast<double>(x[k]);
  const double mean = sum / n;
  for (std::int64_t k = 0; k < count; ++k) {
    const double centered = static_cast<double>(x[k]) - mean;
    squares += centered * centered;
  }
  return {mean, squares / n, 1 / std::sqrt(squares / n + epsilon)};
}

// Elements of a row.
std::int64_t row_length(const Shape& shape, int axis) {
  std::int64_t count = 1;
  for (auto k = static_cast<std::size_t>(axis); k < shape.size(); ++k) count *= shape[k];
  return count;
}

}  // namespace

template <class T>
void row_norm(const Call& call) {
  const auto& a = call.get<ir::RowNormAttributes>();
  const std::int64_t count = row_length(call.in_shape(0), a.axis);
  const std::int64_t rows = element_count(call.in_shape(0)) / count;
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* x = call.in<T>(0) + row * count;
    T* y = call.out<T>(0) + row * count;
    const RowStatistics s = statistics_of(x, count, a.epsilon);
    for (std::int64_t k = 0; k < count; ++k) {
      y[k] = static_cast<T>((static_cast<double>(x[k]) - s.mean) * s.inverse);
    }
    call.out<T>(1)[row] = static_cast<T>(s.mean);
    call.out<T>(2)[row] = static_cast<T>(s.inverse);
    call.out<T>(3)[row] = static_cast<T>(s.variance);
  }
}

// With x^ = (x - mean) inverse: dx = inverse (dy - mean of dy - x^ mean of dy x^).
template <class T>
void row_norm_gradient(const Call& call) {
  const auto& a = call.get<ir::RowNormAttributes>();
  const std::int64_t count = row_length(call.in_shape(1), a.axis);
  const std::int64_t rows = element_count(call.in_shape(1)) / count;
  const auto n = static_cast<double>(count);
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* dy = call.in<T>(0) + row * count;
    const T* x = call.in<T>(1) + row * count;
    T* dx = call.out<T>(0) + row * count;
    const RowStatistics s = statistics_of(x, count, a.epsilon);
    double sum = 0, along = 0;
    for (std::int64_t k = 0; k < count; ++k) {
      const auto g = static_cast<double>(dy[k]);
      sum += g;
      along += g * ((static_cast<double>(x[k]) - s.mean) * s.inverse);
    }
    for (std::int64_t k = 0; k < count; ++k) {
      const double normal = (static_cast<double>(x[k]) - s.mean) * s.inverse;
      const double moved = (static_cast<double>(dy[k]) - sum / n) - normal * (along / n);
      dx[k] = static_cast<T>(s.inverse * moved);
    }
  }
}

template void row_norm<float>(const Call&);
template void row_norm<double>(const Call&);
template void row_norm_gradient<float>(const Call&);
template void row_norm_gradient<double>(const Call&);

}  // namespace traingraph::reference
