#pragma once

#include <algorithm>

#include "backends/cpu/operand_view.h"

namespace traingraph::cpu {

inline constexpr std::int64_t kTileElements = 1024;
inline constexpr std::int64_t kPartElements = 64 * kTileElements;  // for one thread at a time

inline std::int64_t parts_of_tiles(std::int64_t elements) {
  return (elements + kPartElements - 1) / kPartElements;
}

// f(first element, count) for each tile of a part.
template <class F>
void for_each_tile(std::int64_t elements, std::int64_t part, const F& f) {
  const std::int64_t end = std::min(elements, (part + 1) * kPartElements);
  for (std::int64_t begin = part * kPartElements; begin < end; begin += kTileElements) {
    f(begin, std::min(kTileElements, end - begin));
  }
}

// The elements of one operand that a tile of the result reads: in place where it is dense.
template <class T>
class Tile {
 public:
  Tile(const OperandView& view, const T* source) : view_(view), source_(source) {
    if (view.number()) std::fill_n(elements_, kTileElements, *source);
  }

  const T* at(std::int64_t begin, std::int64_t count) {
    if (view_.dense()) return source_ + begin;
    if (!view_.number()) view_.expand(source_, begin, count, elements_);
    return elements_;
  }

 private:
  const OperandView& view_;
  const T* source_;
  T elements_[kTileElements];
};

}  // namespace traingraph::cpu
