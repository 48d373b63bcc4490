// Maximum, average and L2 pooling and their gradients: each result walks the taps of its window.
#include <algorithm>

#include "backends/reference/call.h"
#include "ir/window_taps.h"

namespace traingraph::reference {
namespace {

// x (N, C, H, W) seen as planes (N C, H, W), y as (N C, P, Q).
struct Extents {
  std::int64_t planes, h, w, p, q;
  const ir::Window& window;

  Extents(const ir::Window& window_in, const Shape& x, const Shape& y)
      : planes(x[0] * x[1]), h(x[2]), w(x[3]), p(y[2]), q(y[3]), window(window_in) {}

  // Calls f(y's offset, plane's start in x, row, column of the position) for each result.
  template <class F>
  void each_position(F&& f) const {
    std::int64_t at = 0;
    for (std::int64_t plane = 0; plane < planes; ++plane) {
      for (std::int64_t row = 0; row < p; ++row) {
        for (std::int64_t column = 0; column < q; ++column) f(at++, plane * h * w, row, column);
      }
    }
  }
  // Calls f(offset within the plane, row-major place in the window) for each element of the source
  // under the window at this position.
  template <class F>
  void each_tap(std::int64_t row, std::int64_t column, F&& f) const {
    const ir::Taps rows = ir::taps_in(window, 0, row, h);
    const ir::Taps columns = ir::taps_in(window, 1, column, w);
    for (std::int64_t i = rows.first; i < rows.end; ++i) {
      const std::int64_t at_h =
          row * window.stride[0] + i * window.dilation[0] - window.padding_before[0];
      for (std::int64_t j = columns.first; j < columns.end; ++j) {
        const std::int64_t at_w =
            column * window.stride[1] + j * window.dilation[1] - window.padding_before[1];
        f(at_h * w + at_w, i * window.kernel[1] + j);
      }
    }
  }
  // What an average divides by.
  double divisor(const ir::PoolingAttributes& a, std::int64_t row, std::int64_t column) const {
    if (a.count_includes_padding) return static_cast<double>(window.kernel[0] * window.kernel[1]);
    double count = 0;
    each_tap(row, column, [&](std::int64_t, std::int64_t) { count += 1; });
    return count;
  }
};

// The window index of max pooling is a byte or an int32.
std::int64_t read_index(const std::byte* bytes, DataType type, std::int64_t at) {
  if (type == DataType::kInt32) return reinterpret_cast<const std::int32_t*>(bytes)[at];
  return reinterpret_cast<const std::uint8_t*>(bytes)[at];
}

void write_index(std::byte* bytes, DataType type, std::int64_t at, std::int64_t index) {
  if (type == DataType::kInt32) {
    reinterpret_cast<std::int32_t*>(bytes)[at] = static_cast<std::int32_t>(index);
  } else {
    reinterpret_cast<std::uint8_t*>(bytes)[at] = static_cast<std::uint8_t>(index);
  }
}

}  // namespace

// x (N, C, H, W) → y (N, C, P, Q) [, index (N, C, P, Q)]. Padding is no element of a window. The
// first largest element wins; a NaN wins over every number.
template <class T>
void pooling(const Call& call) {
  const auto& a = call.get<ir::PoolingAttributes>();
  const Extents e(a.window, call.in_shape(0), call.out_shape(0));
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  e.each_position([&](std::int64_t at, std::int64_t start, std::int64_t row, std::int64_t column) {
    const T* plane = x + start;
    if (a.kind == ir::PoolingKind::max) {
      std::int64_t place = -1;
      T best = T(0);
      e.each_tap(row, column, [&](std::int64_t offset, std::int64_t tap) {
        const T value = plane[offset];
        const bool wins = place < 0 || value > best || (std::isnan(value) && !std::isnan(best));
        if (!wins) return;
        best = value;
        place = tap;
      });
      y[at] = best;
      if (a.with_index) {
        write_index(call.out<std::byte>(1), call.outputs[1].data_type, at, place);
      }
      return;
    }
    double sum = 0;
    e.each_tap(row, column, [&](std::int64_t offset, std::int64_t) {
      const double value = static_cast<double>(plane[offset]);
      sum += a.kind == ir::PoolingKind::average ? value : value * value;
    });
    y[at] = static_cast<T>(a.kind == ir::PoolingKind::average ? sum / e.divisor(a, row, column)
                                                              : std::sqrt(sum));
  });
}

// max: dy (N, C, P, Q), index (N, C, P, Q); average: dy; L2: dy, x (N, C, H, W), y (N, C, P, Q) →
// dx (N, C, H, W), overwritten
template <class T>
void pooling_gradient(const Call& call) {
  const auto& a = call.get<ir::PoolingAttributes>();
  const Extents e(a.window, call.out_shape(0), call.in_shape(0));
  const T* dy = call.in<T>(0);
  T* dx = call.out<T>(0);
  std::fill(dx, dx + element_count(call.out_shape(0)), T(0));
  e.each_position([&](std::int64_t at, std::int64_t start, std::int64_t row, std::int64_t column) {
    T* plane = dx + start;
    if (a.kind == ir::PoolingKind::max) {
      const std::int64_t place = read_index(call.in<std::byte>(1), call.inputs[1].data_type, at);
      e.each_tap(row, column, [&](std::int64_t offset, std::int64_t tap) {
        if (tap == place) plane[offset] += dy[at];
      });
    } else if (a.kind == ir::PoolingKind::average) {
      const T share = static_cast<T>(static_cast<double>(dy[at]) / e.divisor(a, row, column));
      e.each_tap(row, column, [&](std::int64_t offset, std::int64_t) { plane[offset] += share; });
    } else {
      // y = sqrt(Σ x²): dx = dy x / y; at 0 there is no derivative, the gradient is 0.
      const T* source = call.in<T>(1) + start;
      const T y = call.in<T>(2)[at];
      if (y == T(0)) return;
      e.each_tap(row, column, [&](std::int64_t offset, std::int64_t) {
        plane[offset] += dy[at] * source[offset] / y;
      });
    }
  });
}

template void pooling<float>(const Call&);
template void pooling<double>(const Call&);
template void pooling_gradient<float>(const Call&);
template void pooling_gradient<double>(const Call&);

}  // namespace traingraph::reference
