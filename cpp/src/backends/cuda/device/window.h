// A pooling or convolution window over the last two axes: x (planes, H, W) → y (planes, P, Q). For
// .cu files only.
#pragma once

#include "backends/cuda/device/device.h"
#include "ir/attributes.h"

namespace traingraph::cuda {

// One axis of a window.
struct WindowAxis {
  int source, positions, kernel, stride, dilation, padding;
  Divider by_stride;

  WindowAxis() = default;
  WindowAxis(const ir::Window& w, int axis, std::int64_t source_extent, std::int64_t positions_in)
      : source(static_cast<int>(source_extent)),
        positions(static_cast<int>(positions_in)),
        kernel(static_cast<int>(w.kernel[axis])),
        stride(static_cast<int>(w.stride[axis])),
        dilation(static_cast<int>(w.dilation[axis])),
        padding(static_cast<int>(w.padding_before[axis])),
        by_stride(w.stride[axis]) {}

  // The source index under a tap at a position; -1 in the padding.
  __device__ int under(int position, int tap) const {
    const int at = position * stride + tap * dilation - padding;
    return at < source ? (at < 0 ? -1 : at) : -1;
  }
  // The position whose tap meets this source element; -1 if there is none.
  __device__ int position_of(int at, int tap) const {
    const int from = at + padding - tap * dilation;
    if (from < 0) return -1;
    const int position =
        static_cast<int>(by_stride.divide_narrow(static_cast<std::uint32_t>(from)));
    return position < positions && position * stride == from ? position : -1;
  }
  // The range of positions whose windows cover this source element, for a dilation of 1.
  __device__ int first_position(int at) const {
    const int from = at + padding - kernel + 1;
    return from <= 0 ? 0
                     : static_cast<int>(
                           by_stride.divide_narrow(static_cast<std::uint32_t>(from + stride - 1)));
  }
  __device__ int last_position(int at) const {
    const int last =
        static_cast<int>(by_stride.divide_narrow(static_cast<std::uint32_t>(at + padding)));
    return last < positions ? last : positions - 1;
  }
  // Taps inside the source at a position.
  __device__ int taps_inside(int position) const {
    if (dilation == 1) {
      const int start = position * stride - padding, end = start + kernel;
      return (end < source ? end : source) - (start > 0 ? start : 0);
    }
    int inside = 0;
    for (int tap = 0; tap < kernel; ++tap) inside += under(position, tap) >= 0 ? 1 : 0;
    return inside;
  }
};

inline bool both_are(const std::int64_t (&values)[2], std::int64_t wanted) {
  return values[0] == wanted && values[1] == wanted;
}

// Whether the extents fit this arithmetic.
inline bool window_fits(const ir::Window& w, const Shape& x, const Shape& y) {
  constexpr std::int64_t kMost = std::int64_t{1} << 29;
  for (int axis = 0; axis < 2; ++axis) {
    const auto at = static_cast<std::size_t>(axis) + 2;
    if (x[at] + w.padding_before[axis] + w.kernel[axis] * w.dilation[axis] > kMost) return false;
    if (y[at] * w.stride[axis] > kMost) return false;
  }
  return true;
}

}  // namespace traingraph::cuda
