#pragma once

#include <algorithm>

#include <traingraph/mps/kernel.h>

// What a padding policy says about one axis, but for the size.
namespace traingraph::mps {

// What a window touches: `kernel` pixels with dilation - 1 between them.
inline std::int64_t extent_of(std::int64_t kernel, std::int64_t dilation) {
  return (kernel - 1) * dilation + 1;
}

// How much of the padding on both sides of an image, negative where pixels stay unused, comes
// before it. What is read lies to the top and left or to the bottom and right as far as it can, or
// centered: an odd pixel of padding then goes to the top and left unless the policy has this flag.
inline std::int64_t padding_before(std::int64_t both_sides, int method, int remainder_flag) {
  constexpr int kTopLeft = 1;
  constexpr int kBottomRight = 2;
  const int alignment = method & PaddingMethod::kAlignMask;
  if (alignment == kTopLeft) return std::max<std::int64_t>(both_sides, 0);
  if (alignment == kBottomRight) return std::min<std::int64_t>(both_sides, 0);
  const bool to_end = (method & remainder_flag) != 0;
  if (both_sides < 0) return (both_sides - (to_end ? 1 : 0)) / 2;
  return (both_sides + (to_end ? 0 : 1)) / 2;
}

}  // namespace traingraph::mps
