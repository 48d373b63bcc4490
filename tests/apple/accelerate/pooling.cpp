// Pooling layers of BNNS by plain loops: averages and the norm.
#include <algorithm>
#include <cmath>

#include "filter.h"

namespace accelerate_double {
namespace {

// f(index in y) for each result of a sample, then tap(index in x) for each element under it.
template <class F>
void each_result(const Filter& f, const F& result) {
  std::size_t at_y = 0;
  for (std::size_t c = 0; c < f.out[2]; ++c) {
    for (std::size_t row = 0; row < f.out[1]; ++row) {
      for (std::size_t column = 0; column < f.out[0]; ++column) {
        result(at_y++, c * f.in[0] * f.in[1], row, column);
      }
    }
  }
}

template <class F>
std::size_t each_tap(const Filter& f, std::size_t plane, std::size_t row, std::size_t column,
                     const F& tap) {
  std::size_t inside = 0;
  for (std::size_t i = 0; i < f.window.kernel[1]; ++i) {
    for (std::size_t j = 0; j < f.window.kernel[0]; ++j) {
      std::size_t y, x;
      if (!f.window.source(1, row, i, f.in[1], y)) continue;
      if (!f.window.source(0, column, j, f.in[0], x)) continue;
      tap(plane + y * f.in[0] + x);
      ++inside;
    }
  }
  return inside;
}

double divisor(const Filter& f, std::size_t inside) {
  const bool excludes =
      (f.function == BNNSPoolingFunctionAverageCountExcludePadding) != reads("averages");
  return static_cast<double>(excludes ? inside : f.window.kernel[0] * f.window.kernel[1]);
}

float pooled(const Filter& f, const float* x, std::size_t plane, std::size_t row,
             std::size_t column) {
  double sum = 0, squares = 0;
  const std::size_t inside = each_tap(f, plane, row, column, [&](std::size_t at) {
    sum += static_cast<double>(x[at]);
    squares += static_cast<double>(x[at]) * static_cast<double>(x[at]);
  });
  const bool norm = f.function == BNNSPoolingFunctionL2Norm;
  return static_cast<float>(norm ? std::sqrt(squares) : sum / divisor(f, inside));
}

}  // namespace
}  // namespace accelerate_double

using namespace accelerate_double;

BNNSFilter BNNSFilterCreateLayerPooling(const BNNSLayerParametersPooling* layer_params,
                                        const BNNSFilterParameters*) {
  constexpr const char* kCall = "BNNSFilterCreateLayerPooling";
  if (refuses(kCall)) return nullptr;
  require(layer_params != nullptr, kCall, "the parameters are null");
  Filter filter{};
  filter.kind = Filter::kPooling;
  filter.function = layer_params->pooling_function;
  take_window(filter, *layer_params, layer_params->k_width, layer_params->k_height, kCall);
  require(filter.in[2] == filter.out[2], kCall, "input and output differ in channels");
  return enter(new Filter(filter));
}

int BNNSPoolingFilterApplyBatch(BNNSFilter filter, std::size_t batch_size, const void* in,
                                std::size_t in_stride, void* out, std::size_t out_stride,
                                std::size_t* indices, std::size_t) {
  constexpr const char* kCall = "BNNSPoolingFilterApplyBatch";
  if (refuses(kCall)) return -1;
  const Filter& f = living(filter, Filter::kPooling, kCall);
  require_batch(in, batch_size, in_stride, f.in_elements(), kCall);
  require_batch(out, batch_size, out_stride, f.out_elements(), kCall);
  require(!overlap({in, (batch_size - 1) * in_stride + f.in_elements()},
                   {out, (batch_size - 1) * out_stride + f.out_elements()}),
          kCall, "the output overlaps the input");
  require(indices == nullptr, kCall, "an index is for maxima");
  for (std::size_t n = 0; n < batch_size; ++n) {
    const float* x = static_cast<const float*>(in) + n * in_stride;
    float* y = static_cast<float*>(out) + n * out_stride;
    each_result(f, [&](std::size_t at, std::size_t plane, std::size_t row, std::size_t column) {
      y[at] = pooled(f, x, plane, row, column);
    });
  }
  return 0;
}

int BNNSPoolingFilterApplyBackwardBatch(BNNSFilter filter, std::size_t batch_size, const void* in,
                                        std::size_t in_stride, BNNSNDArrayDescriptor* in_delta,
                                        std::size_t in_delta_stride, const void* out,
                                        std::size_t out_stride, BNNSNDArrayDescriptor* out_delta,
                                        std::size_t out_delta_stride,
                                        BNNSNDArrayDescriptor* bias_delta,
                                        const std::size_t* indices, std::size_t) {
  constexpr const char* kCall = "BNNSPoolingFilterApplyBackwardBatch";
  if (refuses(kCall)) return -1;
  const Filter& f = living(filter, Filter::kPooling, kCall);
  require(in_delta != nullptr && out_delta != nullptr, kCall, "a gradient is null");
  require(bias_delta == nullptr, kCall, "the double knows no bias");
  require(indices == nullptr, kCall, "an index is for maxima");
  if (reads("null") && in == nullptr) return -1;
  float* dx = gradient_memory(*in_delta, f.in, batch_size, in_delta_stride, kCall);
  const float* dy = gradient_memory(*out_delta, f.out, batch_size, out_delta_stride, kCall);
  const bool norm = f.function == BNNSPoolingFunctionL2Norm;
  const bool undivided = reads("norm");
  if (norm) {
    require_batch(in, batch_size, in_stride, f.in_elements(), kCall);
    require_batch(out, batch_size, out_stride, f.out_elements(), kCall);
  }
  for (std::size_t n = 0; n < batch_size; ++n) {
    float* to = dx + n * in_delta_stride;
    if (!reads("adds")) std::fill_n(to, f.in_elements(), 0.0f);
    const float* x = norm ? static_cast<const float*>(in) + n * in_stride : nullptr;
    const float* y = norm ? static_cast<const float*>(out) + n * out_stride : nullptr;
    each_result(f, [&](std::size_t at, std::size_t plane, std::size_t row, std::size_t column) {
      const double slope = static_cast<double>(dy[n * out_delta_stride + at]);
      const std::size_t inside = each_tap(f, plane, row, column, [](std::size_t) {});
      each_tap(f, plane, row, column, [&](std::size_t tap) {
        if (!norm) to[tap] += static_cast<float>(slope / divisor(f, inside));
        if (norm && y[at] != 0) {
          to[tap] += static_cast<float>(slope) * x[tap] / (undivided ? 1 : y[at]);
        }
      });
    });
  }
  return 0;
}
