#pragma once

#include <string>

#include <traingraph/types.h>

#include "ir/attributes.h"

// The moving window of a layer's descriptor, and its padding policy resolved to a number of rows
// and columns. Axis 0 is the height, axis 1 the width.
namespace traingraph {

struct WindowDescription {
  std::int64_t kernel[2];
  std::int64_t stride[2];
  std::int64_t dilation[2];
  PaddingPolicy policy;
  std::int64_t padding[2];  // on both sides, for kUsePaddingSize
};

template <class Descriptor>
WindowDescription window_of(const Descriptor& d) {
  return {{d.kernel_height, d.kernel_width},
          {d.stride_y, d.stride_x},
          {d.dilation_y, d.dilation_x},
          d.padding_policy,
          {d.padding_y, d.padding_x}};
}

// Raises InvalidArgument "[layer] expected … but got …" unless kernel, stride and dilation are 1 or
// more and padding is 0 or more.
void check_window(const WindowDescription& description, const std::string& layer);

// For a source of these extents. same: as many positions as the source divided by the stride,
// rounded up; the smaller half of the padding comes first. valid: none.
ir::Window resolve_window(const WindowDescription& description, std::int64_t height,
                          std::int64_t width);

// The extent along an axis of the result of a transposed window: of the source that the window has
// this many positions over. same: a stride for each. 0 or less where padding leaves nothing.
std::int64_t transposed_extent(const WindowDescription& description, int axis,
                               std::int64_t positions);

// "3x3", then what is not the default: " stride 2x2 dilation 2x2 padding same".
std::string to_string(const WindowDescription& description);

}  // namespace traingraph
