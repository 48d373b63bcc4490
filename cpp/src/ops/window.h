#pragma once

#include <string>

#include "ir/extents.h"
#include "ops/op.h"

// What the shape rules of convolution and pooling share: a window over the last two axes.
namespace traingraph::ops {

// Extent of the dilated kernel along one axis of the window (0: height, 1: width).
inline std::int64_t effective_kernel(const ir::Window& w, int axis) {
  return (w.kernel[axis] - 1) * w.dilation[axis] + 1;
}

// Window positions over a source extent; 0 or less where the kernel does not fit.
inline std::int64_t window_positions(const ir::Window& w, int axis, std::int64_t source) {
  const std::int64_t room =
      source + w.padding_before[axis] + w.padding_after[axis] - effective_kernel(w, axis);
  return room < 0 ? 0 : room / w.stride[axis] + 1;
}

// Raises unless kernel, stride and dilation are 1 or more, padding is 0 or more, and the kernel
// fits into the padded (height, width).
inline void expect_window(const Inference& in, const ir::Window& w, std::int64_t height,
                          std::int64_t width) {
  auto pair = [](const std::int64_t* v) { return to_string(Shape{v[0], v[1]}); };
  auto least = [&](const char* what, const std::int64_t* v, std::int64_t bound) {
    const bool small = v[0] < bound || v[1] < bound;
    if (!small && v[0] <= ir::kMostOfWindow && v[1] <= ir::kMostOfWindow) return;
    in.fail("expected " + std::string(what) + " of " + ir::bound_of_window(small, bound) +
            " but got " + pair(v));
  };
  least("kernel sizes", w.kernel, 1);
  least("strides", w.stride, 1);
  least("dilation rates", w.dilation, 1);
  least("padding", w.padding_before, 0);
  least("padding", w.padding_after, 0);
  if (window_positions(w, 0, height) > 0 && window_positions(w, 1, width) > 0) return;
  const Shape padded = {height + w.padding_before[0] + w.padding_after[0],
                        width + w.padding_before[1] + w.padding_after[1]};
  in.fail("expected a kernel within the padded source " + to_string(padded) + " but got one of " +
          to_string(Shape{effective_kernel(w, 0), effective_kernel(w, 1)}));
}

}  // namespace traingraph::ops
