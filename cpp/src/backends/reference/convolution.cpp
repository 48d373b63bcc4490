// Convolution and its adjoints, each result element by itself: sums in float64 over the taps that
// meet the source.
#include "backends/reference/call.h"

namespace traingraph::reference {
namespace {

// x (N, C, H, W), weights (O, C / groups, kh, kw), y (N, O, P, Q)
struct Extents {
  std::int64_t n, c, h, w, o, p, q, groups;
  const ir::Window& window;

  Extents(const ir::ConvolutionAttributes& a, const Shape& x, const Shape& y)
      : n(x[0]),
        c(x[1]),
        h(x[2]),
        w(x[3]),
        o(y[1]),
        p(y[2]),
        q(y[3]),
        groups(a.groups),
        window(a.window) {}

  std::int64_t inputs_per_group() const { return c / groups; }
  std::int64_t results_per_group() const { return o / groups; }
  // Source row (axis 0) or column (axis 1) under a tap of the window at `position`.
  std::int64_t source(int axis, std::int64_t position, std::int64_t tap) const {
    return position * window.stride[axis] + tap * window.dilation[axis] -
           window.padding_before[axis];
  }
  // The position whose tap meets this source row or column; -1 when there is none.
  std::int64_t position(int axis, std::int64_t source, std::int64_t tap) const {
    const std::int64_t at = source + window.padding_before[axis] - tap * window.dilation[axis];
    if (at < 0 || at % window.stride[axis] != 0) return -1;
    const std::int64_t found = at / window.stride[axis];
    return found < (axis == 0 ? p : q) ? found : -1;
  }
  std::int64_t at_x(std::int64_t ni, std::int64_t ci, std::int64_t hi, std::int64_t wi) const {
    return ((ni * c + ci) * h + hi) * w + wi;
  }
  std::int64_t at_y(std::int64_t ni, std::int64_t oi, std::int64_t pi, std::int64_t qi) const {
    return ((ni * o + oi) * p + pi) * q + qi;
  }
  std::int64_t at_weights(std::int64_t oi, std::int64_t k, std::int64_t i, std::int64_t j) const {
    return ((oi * inputs_per_group() + k) * window.kernel[0] + i) * window.kernel[1] + j;
  }
};

}  // namespace

// x (N, C, H, W), weights (O, C / groups, kh, kw) → y (N, O, P, Q)
template <class T>
void convolution(const Call& call) {
  const Extents e(call.get<ir::ConvolutionAttributes>(), call.in_shape(0), call.out_shape(0));
  const T* x = call.in<T>(0);
  const T* weights = call.in<T>(1);
  T* y = call.out<T>(0);
  for (std::int64_t n = 0; n < e.n; ++n) {
    for (std::int64_t o = 0; o < e.o; ++o) {
      const std::int64_t first = o / e.results_per_group() * e.inputs_per_group();
      for (std::int64_t p = 0; p < e.p; ++p) {
        for (std::int64_t q = 0; q < e.q; ++q) {
          double sum = 0;
          for (std::int64_t k = 0; k < e.inputs_per_group(); ++k) {
            for (std::int64_t i = 0; i < e.window.kernel[0]; ++i) {
              const std::int64_t h = e.source(0, p, i);
              if (h < 0 || h >= e.h) continue;
              for (std::int64_t j = 0; j < e.window.kernel[1]; ++j) {
                const std::int64_t w = e.source(1, q, j);
                if (w < 0 || w >= e.w) continue;
                sum += static_cast<double>(x[e.at_x(n, first + k, h, w)]) *
                       static_cast<double>(weights[e.at_weights(o, k, i, j)]);
              }
            }
          }
          y[e.at_y(n, o, p, q)] = static_cast<T>(sum);
        }
      }
    }
  }
}

// dy (N, O, P, Q), weights (O, C / groups, kh, kw) → dx (N, C, H, W), overwritten
template <class T>
void convolution_gradient_data(const Call& call) {
  const Extents e(call.get<ir::ConvolutionAttributes>(), call.out_shape(0), call.in_shape(0));
  const T* dy = call.in<T>(0);
  const T* weights = call.in<T>(1);
  T* dx = call.out<T>(0);
  for (std::int64_t n = 0; n < e.n; ++n) {
    for (std::int64_t c = 0; c < e.c; ++c) {
      const std::int64_t k = c % e.inputs_per_group();
      const std::int64_t first = c / e.inputs_per_group() * e.results_per_group();
      for (std::int64_t h = 0; h < e.h; ++h) {
        for (std::int64_t w = 0; w < e.w; ++w) {
          double sum = 0;
          for (std::int64_t i = 0; i < e.window.kernel[0]; ++i) {
            const std::int64_t p = e.position(0, h, i);
            if (p < 0) continue;
            for (std::int64_t j = 0; j < e.window.kernel[1]; ++j) {
              const std::int64_t q = e.position(1, w, j);
              if (q < 0) continue;
              for (std::int64_t o = first; o < first + e.results_per_group(); ++o) {
                sum += static_cast<double>(dy[e.at_y(n, o, p, q)]) *
                       static_cast<double>(weights[e.at_weights(o, k, i, j)]);
              }
            }
          }
          dx[e.at_x(n, c, h, w)] = static_cast<T>(sum);
        }
      }
    }
  }
}

// dy (N, O, P, Q), x (N, C, H, W) → dweights (O, C / groups, kh, kw), overwritten
template <class T>
void convolution_gradient_weights(const Call& call) {
  const Extents e(call.get<ir::ConvolutionAttributes>(), call.in_shape(1), call.in_shape(0));
  const T* dy = call.in<T>(0);
  const T* x = call.in<T>(1);
  T* dweights = call.out<T>(0);
  for (std::int64_t o = 0; o < e.o; ++o) {
    const std::int64_t first = o / e.results_per_group() * e.inputs_per_group();
    for (std::int64_t k = 0; k < e.inputs_per_group(); ++k) {
      for (std::int64_t i = 0; i < e.window.kernel[0]; ++i) {
        for (std::int64_t j = 0; j < e.window.kernel[1]; ++j) {
          double sum = 0;
          for (std::int64_t n = 0; n < e.n; ++n) {
            for (std::int64_t p = 0; p < e.p; ++p) {
              const std::int64_t h = e.source(0, p, i);
              if (h < 0 || h >= e.h) continue;
              for (std::int64_t q = 0; q < e.q; ++q) {
                const std::int64_t w = e.source(1, q, j);
                if (w < 0 || w >= e.w) continue;
                sum += static_cast<double>(dy[e.at_y(n, o, p, q)]) *
                       static_cast<double>(x[e.at_x(n, first + k, h, w)]);
              }
            }
          }
          dweights[e.at_weights(o, k, i, j)] = static_cast<T>(sum);
        }
      }
    }
  }
}

template void convolution<float>(const Call&);
template void convolution<double>(const Call&);
template void convolution_gradient_data<float>(const Call&);
template void convolution_gradient_data<double>(const Call&);
template void convolution_gradient_weights<float>(const Call&);
template void convolution_gradient_weights<double>(const Call&);

}  // namespace traingraph::reference
