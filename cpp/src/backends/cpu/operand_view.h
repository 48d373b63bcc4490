// How an operand broadcasts to a result, in the memory order of the result.
#pragma once

#include <algorithm>
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
  template <class T>
  void expand(const T* source, std::int64_t begin, std::int64_t count, T* tile) const;
};

template <class T>
void OperandView::expand(const T* source, std::int64_t begin, std::int64_t count, T* tile) const {
  const Dimension inner = dimensions.back();
  const std::size_t outer = dimensions.size() - 1;
  std::int64_t at = begin % inner.extent;
  std::int64_t row = begin / inner.extent;
  while (count > 0) {
    std::int64_t offset = 0;
    std::int64_t rest = row++;
    for (std::size_t d = outer; d-- > 0;) {
      offset += rest % dimensions[d].extent * dimensions[d].stride;
      rest /= dimensions[d].extent;
    }
    const std::int64_t run = std::min(count, inner.extent - at);
    const T* from = source + offset + at * inner.stride;
    if (inner.stride == 0) {
      std::fill_n(tile, run, *from);
    } else if (inner.stride == 1) {
      std::copy_n(from, run, tile);
    } else {
      for (std::int64_t i = 0; i < run; ++i) tile[i] = from[i * inner.stride];
    }
    tile += run;
    count -= run;
    at = 0;
  }
}

// `operand` has the result's layout if it has its shape, else it is plain.
OperandView view_of(const Shape& operand, const Shape& result, const ir::Layout& layout);

}  // namespace traingraph::cpu
