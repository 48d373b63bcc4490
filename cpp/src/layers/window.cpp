// Checks of a moving window, and its padding policy resolved to explicit padding for a source's
// extents.
#include "layers/window.h"

#include <algorithm>

#include <traingraph/errors.h>

#include "ir/extents.h"

namespace traingraph {
namespace {

std::string by(const std::int64_t* sizes) {
  return std::to_string(sizes[0]) + "x" + std::to_string(sizes[1]);
}

}  // namespace

void check_window(const WindowDescription& d, const std::string& layer) {
  auto least = [&](const char* what, const std::int64_t* sizes, std::int64_t bound) {
    const bool small = sizes[0] < bound || sizes[1] < bound;
    if (!small && sizes[0] <= ir::kMostOfWindow && sizes[1] <= ir::kMostOfWindow) return;
    throw InvalidArgument("[" + layer + "] expected " + what + " of " +
                          ir::bound_of_window(small, bound) + " but got " + by(sizes));
  };
  least("kernel sizes", d.kernel, 1);
  least("strides", d.stride, 1);
  least("dilation rates", d.dilation, 1);
  least("padding sizes", d.padding, 0);
}

ir::Window resolve_window(const WindowDescription& d, std::int64_t height, std::int64_t width) {
  const std::int64_t source[2] = {height, width};
  ir::Window window;
  for (int axis = 0; axis < 2; ++axis) {
    window.kernel[axis] = d.kernel[axis];
    window.stride[axis] = d.stride[axis];
    window.dilation[axis] = d.dilation[axis];
    std::int64_t before = 0, after = 0;
    if (d.policy == PaddingPolicy::kUsePaddingSize) {
      before = after = d.padding[axis];
    } else if (d.policy == PaddingPolicy::kSame) {
      const std::int64_t positions = (source[axis] + d.stride[axis] - 1) / d.stride[axis];
      const std::int64_t reach =
          (positions - 1) * d.stride[axis] + (d.kernel[axis] - 1) * d.dilation[axis] + 1;
      const std::int64_t total = std::max<std::int64_t>(reach - source[axis], 0);
      before = total / 2;
      after = total - before;
    }
    window.padding_before[axis] = before;
    window.padding_after[axis] = after;
  }
  return window;
}

std::int64_t transposed_extent(const WindowDescription& d, int axis, std::int64_t positions) {
  if (d.policy == PaddingPolicy::kSame) return ir::product(positions, d.stride[axis]);
  const std::int64_t reach = (d.kernel[axis] - 1) * d.dilation[axis] + 1;
  const std::int64_t whole = ir::sum(ir::product(positions - 1, d.stride[axis]), reach);
  return d.policy == PaddingPolicy::kValid ? whole : whole - 2 * d.padding[axis];
}

std::string to_string(const WindowDescription& d) {
  std::string text = by(d.kernel);
  if (d.stride[0] != 1 || d.stride[1] != 1) text += " stride " + by(d.stride);
  if (d.dilation[0] != 1 || d.dilation[1] != 1) text += " dilation " + by(d.dilation);
  switch (d.policy) {
    case PaddingPolicy::kSame:
      return text + " padding same";
    case PaddingPolicy::kValid:
      return text + " padding valid";
    case PaddingPolicy::kUsePaddingSize:
      return text + " padding " + by(d.padding);
  }
  return text;
}

}  // namespace traingraph
