#include "backends/reference/call.h"

namespace traingraph::reference {
namespace {

// Tensors (N, C, …) seen as (N, C, S).
struct Extents {
  std::int64_t n, c, s;

  explicit Extents(const Shape& x) : n(x[0]), c(x[1]), s(element_count(x) / (x[0] * x[1])) {}

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

}  // namespace

// x (N, C, S), gamma (C), beta (C) → y (N, C, S), mean (C), inverse_deviation (C), variance (C).
// Two passes: the variance is that of differences from the mean, safe for a mean far from 0.
template <class T>
void batch_norm(const Call& call) {
  const Extents e(call.in_shape(0));
  const double epsilon = call.get<ir::BatchNormAttributes>().epsilon;
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  for (std::int64_t c = 0; c < e.c; ++c) {
    double sum = 0;
    e.each(c, [&](std::int64_t k) { sum += static_cast<double>(x[k]); });
    const double mean = sum / e.count();
    double squares = 0;
    e.each(c, [&](std::int64_t k) {
      const double difference = static_cast<double>(x[k]) - mean;
      squares += difference * difference;
    });
    const double variance = squares / e.count();
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
template <class T>
void batch_norm_gradient(const Call& call) {
  const Extents e(call.in_shape(1));
  const T* dy = call.in<T>(0);
  const T* x = call.in<T>(1);
  T* dx = call.out<T>(0);
  for (std::int64_t c = 0; c < e.c; ++c) {
    const double mean = static_cast<double>(call.in<T>(2)[c]);
    const double inverse_deviation = static_cast<double>(call.in<T>(3)[c]);
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
    call.out<T>(1)[c] = static_cast<T>(dgamma);
    call.out<T>(2)[c] = static_cast<T>(dbeta);
  }
}

template void batch_norm<float>(const Call&);
template void batch_norm<double>(const Call&);
template void batch_norm_gradient<float>(const Call&);
template void batch_norm_gradient<double>(const Call&);

}  // namespace traingraph::reference
