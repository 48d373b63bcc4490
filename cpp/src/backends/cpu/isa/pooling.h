#pragma once

#include <cstdint>

namespace traingraph::cpu {

// Along one axis of the window: which source coordinates a target coordinate reads, and as which
// tap of the window. Forward, targets are results and sources are x; in the gradient the reverse.
struct Tap {
  std::int32_t source;
  std::int32_t tap;
};
struct AxisTaps {
  const std::int32_t* begin;  // of target t: entries [begin[t], begin[t + 1])
  const Tap* taps;
};

// One plane of target (rows, columns, lanes) over source (…, source_columns, lanes).
struct PoolingPlane {
  AxisTaps rows, columns;
  std::int64_t target_columns;
  std::int64_t source_columns;
  std::int64_t lanes;
  std::int32_t kernel_columns;  // a window's index is row tap * kernel_columns + column tap
  std::int32_t first_column_tap, end_column_tap;  // of taps that lie in the source at all
  // of the window along columns: result q reads x columns q * stride - padding + tap * dilation
  std::int64_t column_stride, column_dilation, column_padding;
  bool wide_index;  // int32 instead of uint8
  // 1 / (elements of a window), as the product of one factor per row and one per column of results
  const float* row_factors;
  const float* column_factors;
};

// All over target rows [begin, end); pointers are those of the whole plane.
struct PoolingLoops {
  // Of float32, float16 and bfloat16, those of 16 bits for several lanes alone. Sums are float32.
  void (*maximum[3])(const PoolingPlane& plane, const void* x, void* y, void* index,
                     std::int64_t begin, std::int64_t end);  // index may be null
  void (*maximum_gradient[3])(const PoolingPlane& plane, const void* dy, const void* index,
                              void* dx, std::int64_t begin, std::int64_t end);
  void (*average)(const PoolingPlane& plane, const float* x, float* y, std::int64_t begin,
                  std::int64_t end);
  void (*l2_norm)(const PoolingPlane& plane, const float* x, float* y, std::int64_t begin,
                  std::int64_t end);
  void (*average_gradient)(const PoolingPlane& plane, const float* dy, float* dx,
                           std::int64_t begin, std::int64_t end);
  void (*l2_norm_gradient)(const PoolingPlane& plane, const float* dy, const float* x,
                           const float* y, float* dx, std::int64_t begin, std::int64_t end);
};

}  // namespace traingraph::cpu
