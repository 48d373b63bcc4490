#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/type.h"

namespace traingraph::cpu {

// Results seen as (batch, channels, space, lanes) in memory order, for operands with one element
// per channel: `lanes` channels lie side by side, `channels` counts groups of them. Plain (N, C, H,
// W) is (N, C, H W, 1), channels-last and (rows, columns) are (1, 1, rows, columns), nChw16c is
// (N, C / 16, H W, 16).
struct ChannelView {
  std::int64_t batch = 1;
  std::int64_t channels = 1;
  std::int64_t space = 1;
  std::int64_t lanes = 1;
  bool operator==(const ChannelView&) const = default;
};

// An operand's elements in the memory order of the result it broadcasts to. Dimensions are
// outermost first and as few as possible; stride 0 repeats.
struct OperandView {
  struct Dimension {
    std::int64_t extent;
    std::int64_t stride;
  };
  std::vector<Dimension> dimensions;

  // One element per result element, in the same order.
  bool dense() const;
  // One element for all.
  bool number() const;
  std::optional<ChannelView> by_channel() const;
  // Writes the elements for result positions [begin, begin + count).
  void expand(const float* source, std::int64_t begin, std::int64_t count, float* tile) const;
};

// `operand` has the result's layout if it has its shape, else it is plain.
OperandView view_of(const Shape& operand, const Shape& result, const ir::Layout& layout);

}  // namespace traingraph::cpu
