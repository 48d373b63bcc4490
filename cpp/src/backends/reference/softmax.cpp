// Softmax and log softmax along one axis, and their gradient.
#include <algorithm>
#include <limits>

#include "backends/reference/call.h"

namespace traingraph::reference {
namespace {

// Rows along one axis of a dense tensor: element k of row (o, i) lies at (o * extent + k) * inner
// + i.
struct Rows {
  std::int64_t outer = 1, extent = 1, inner = 1;

  Rows(const Shape& shape, int axis) : extent(shape[static_cast<std::size_t>(axis)]) {
    for (int k = 0; k < static_cast<int>(shape.size()); ++k) {
      if (k < axis) outer *= shape[static_cast<std::size_t>(k)];
      if (k > axis) inner *= shape[static_cast<std::size_t>(k)];
    }
  }
  // f(first offset) for each row.
  template <class F>
  void for_each(F&& f) const {
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t i = 0; i < inner; ++i) f(o * extent * inner + i);
    }
  }
};

}  // namespace

// x (…, K, …) → y of the same shape: e^x / Σ e^x or x - log Σ e^x along the axis, with the maximum
// subtracted first.
template <class T>
void softmax(const Call& call) {
  const auto& attributes = call.get<ir::SoftmaxAttributes>();
  const Rows rows(call.in_shape(0), attributes.axis);
  rows.for_each([&](std::int64_t first) {
    const T* x = call.in<T>(0) + first;
    T* y = call.out<T>(0) + first;
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t k = 0; k < rows.extent; ++k) {
      largest = std::max(largest, static_cast<double>(x[k * rows.inner]));
    }
    double sum = 0;
    for (std::int64_t k = 0; k < rows.extent; ++k) {
      sum += std::exp(static_cast<double>(x[k * rows.inner]) - largest);
    }
    for (std::int64_t k = 0; k < rows.extent; ++k) {
      const double shifted = static_cast<double>(x[k * rows.inner]) - largest;
      y[k * rows.inner] =
          static_cast<T>(attributes.logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum);
    }
  });
}

// dy, y → dx (overwritten): y (dy - Σ dy y), or dy - e^y Σ dy for the logarithm.
template <class T>
void softmax_gradient(const Call& call) {
  const auto& attributes = call.get<ir::SoftmaxAttributes>();
  const Rows rows(call.out_shape(0), attributes.axis);
  rows.for_each([&](std::int64_t first) {
    const T* dy = call.in<T>(0) + first;
    const T* y = call.in<T>(1) + first;
    T* dx = call.out<T>(0) + first;
    double sum = 0;
    for (std::int64_t k = 0; k < rows.extent; ++k) {
      const double gradient = static_cast<double>(dy[k * rows.inner]);
      sum += attributes.logarithm ? gradient : gradient * static_cast<double>(y[k * rows.inner]);
    }
    for (std::int64_t k = 0; k < rows.extent; ++k) {
      const double gradient = static_cast<double>(dy[k * rows.inner]);
      const double result = static_cast<double>(y[k * rows.inner]);
      dx[k * rows.inner] = static_cast<T>(attributes.logarithm ? gradient - std::exp(result) * sum
                                                               : result * (gradient - sum));
    }
  });
}

template void softmax<float>(const Call&);
template void softmax<double>(const Call&);
template void softmax_gradient<float>(const Call&);
template void softmax_gradient<double>(const Call&);

}  // namespace traingraph::reference
