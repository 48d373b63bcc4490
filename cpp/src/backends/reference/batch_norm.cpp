// Batch norm and its gradient, channel by channel in float64: statistics in two passes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/reference/call.h"

namespace traingraph::reference {
namespace {

// Tensors (N, C, …) seen as (N, C, S).
struct Extents {
  std::int64_t n, c, s;

  explicit Extents(const Shape& x) : n(x[0]), c(x[1]), s(element_count(x) / (x[0] * x[1])) {}
  // Those that count: the first ones.
  Extents counted(const Call& call, std::size_t rows) const {
    Extents part = *this;
    if (call.get<ir::BatchNormAttributes>().counts_rows) part.n = *call.in<std::int64_t>(rows);
    return part;
  }

  double count() const { return static_cast<double>(n * s); }
  // Calls f with the offset of each element of a channel.
  template <class F>
  void each(std::int64_t channel, F&& f) const {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t start = (i * c + channel) * s;
      for (std::int64_t k = start; k < start + s; ++k) f(k);
    }
  }
};

struct Statistics {
  double mean, variance;
};

// Two passes: the variance is that of differences from the mean, safe for a mean far from 0.
template <class T>
Statistics statistics_of(const Extents& e, const T* x, std::int64_t channel) {
  double sum = 0, squares = 0;
  e.each(channel, [&](std::int64_t k) { sum += static_cast<double>(x[k]); });
  const double mean = sum / e.count();
  e.each(channel, [&](std::int64_t k) {
    const double difference = static_cast<double>(x[k]) - mean;
    squares += difference * difference;
  });
  return {mean, squares / e.count()};
}

// Whether `value` is what was rounded to `given`, by loops that may have added in another order.
template <class T>
bool was(T given, double value, double size) {
  const double reach = 8 * static_cast<double>(std::numeric_limits<T>::epsilon());
  return std::abs(static_cast<double>(given) - value) <= reach * size;
}

}  // namespace

// x (N, C, S), gamma (C), beta (C) → y (N, C, S), mean (C), inverse_deviation (C), variance (C).
template <class T>
void batch_norm(const Call& call) {
  const Extents e(call.in_shape(0));
  const Extents counted = e.counted(call, ir::BatchNormOperands::rows);
  const double epsilon = call.get<ir::BatchNormAttributes>().epsilon;
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  for (std::int64_t c = 0; c < e.c; ++c) {
    const auto [mean, variance] = statistics_of(counted, x, c);
    const double inverse_deviation = 1 / std::sqrt(variance + epsilon);
    const double gamma = static_cast<double>(call.in<T>(1)[c]);
    const double beta = static_cast<double>(call.in<T>(2)[c]);
    e.each(c, [&](std::int64_t k) {
      y[k] = static_cast<T>((static_cast<double>(x[k]) - mean) * inverse_deviation * gamma + beta);
    });
    call.out<T>(1)[c] = static_cast<T>(mean);
    call.out<T>(2)[c] = static_cast<T>(inverse_deviation);
    call.out<T>(3)[c] = static_cast<T>(variance);
  }
}

// dy (N, C, S), x (N, C, S), mean (C), inverse_deviation (C), gamma (C) →
// dx (N, C, S), dgamma (C), dbeta (C), all overwritten. With z = (x - mean) inverse_deviation and
// M = N S elements per channel:
//   dbeta = Σ dy, dgamma = Σ dy z, dx = gamma inverse_deviation (dy - dbeta / M - z dgamma / M)
// Of two elements per channel what is left of dy is less than what rounding mean and deviation to T
// changes: they are found again from x, whose they are.
template <class T>
void batch_norm_gradient(const Call& call) {
  const Extents all(call.in_shape(1));
  const Extents e = all.counted(call, ir::BatchNormGradientOperands::rows);
  const T* dy = call.in<T>(0);
  const T* x = call.in<T>(1);
  T* dx = call.out<T>(0);
  const double epsilon = call.get<ir::BatchNormAttributes>().epsilon;
  for (std::int64_t c = 0; c < e.c; ++c) {
    double mean = static_cast<double>(call.in<T>(2)[c]);
    double inverse_deviation = static_cast<double>(call.in<T>(3)[c]);
    if (e.count() <= 2) {
      const auto [exact_mean, variance] = statistics_of(e, x, c);
      const double exact_inverse = 1 / std::sqrt(variance + epsilon);
      if (was(call.in<T>(2)[c], exact_mean, std::abs(exact_mean) + std::sqrt(variance)) &&
          was(call.in<T>(3)[c], exact_inverse, exact_inverse)) {
        mean = exact_mean;
        inverse_deviation = exact_inverse;
      }
    }
    const double gamma = static_cast<double>(call.in<T>(4)[c]);
    auto normalized = [&](std::int64_t k) {
      return (static_cast<double>(x[k]) - mean) * inverse_deviation;
    };
    double dgamma = 0, dbeta = 0;
    e.each(c, [&](std::int64_t k) {
      dbeta += static_cast<double>(dy[k]);
      dgamma += static_cast<double>(dy[k]) * normalized(k);
    });
    e.each(c, [&](std::int64_t k) {
      const double centred =
          static_cast<double>(dy[k]) - (dbeta + normalized(k) * dgamma) / e.count();
      dx[k] = static_cast<T>(gamma * inverse_deviation * centred);
    });
    for (std::int64_t i = e.n; i < all.n; ++i) {
      std::fill_n(dx + (i * e.c + c) * e.s, e.s, T(0));
    }
    call.out<T>(1)[c] = static_cast<T>(dgamma);
    call.out<T>(2)[c] = static_cast<T>(dbeta);
  }
}

template void batch_norm<float>(const Call&);
template void batch_norm<double>(const Call&);
template void batch_norm_gradient<float>(const Call&);
template void batch_norm_gradient<double>(const Call&);

}  // namespace traingraph::reference
