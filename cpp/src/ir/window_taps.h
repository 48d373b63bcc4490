#pragma once

#include <algorithm>

#include "ir/attributes.h"

namespace traingraph::ir {

// The taps [first, end) of the window at `position` that lie in a source of this extent.
struct Taps {
  std::int64_t first, end;
};

inline Taps taps_in(const Window& w, int axis, std::int64_t position, std::int64_t source) {
  const std::int64_t start = position * w.stride[axis] - w.padding_before[axis];
  const std::int64_t dilation = w.dilation[axis];
  const std::int64_t first = start < 0 ? (dilation - 1 - start) / dilation : 0;
  const std::int64_t end = start < source ? (source - start - 1) / dilation + 1 : 0;
  return {first, std::min(end, w.kernel[axis])};
}

}  // namespace traingraph::ir
