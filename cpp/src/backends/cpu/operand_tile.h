#pragma once

#include <algorithm>

#include "backends/cpu/operand_view.h"

namespace traingraph::cpu {

inline constexpr std::int64_t kTileElements = 1024;

// The elements of one operand that a tile of the result reads: in place where it is dense.
template <class T>
class Tile {
 public:
  Tile(const OperandView& view, const T* source) : view_(view), source_(source) {
    if (view.number()) std::fill_n(elements_, kTileElements, *source);
  }

  const T* at(std::int64_t begin, std::int64_t count) {
    if (view_.dense()) return source_ + begin;
    if (!view_.number()) expand(begin, count);
    return elements_;
  }

 private:
  void expand(std::int64_t begin, std::int64_t count) {
    const auto& dimensions = view_.dimensions;
    const OperandView::Dimension inner = dimensions.back();
    for (std::int64_t done = 0; done < count;) {
      std::int64_t rest = (begin + done) / inner.extent, offset = 0;
      for (std::size_t k = dimensions.size() - 1; k-- > 0;) {
        offset += rest % dimensions[k].extent * dimensions[k].stride;
        rest /= dimensions[k].extent;
      }
      const std::int64_t at = (begin + done) % inner.extent;
      const std::int64_t length = std::min(count - done, inner.extent - at);
      const T* const from = source_ + offset + at * inner.stride;
      for (std::int64_t k = 0; k < length; ++k) elements_[done + k] = from[k * inner.stride];
      done += length;
    }
  }

  const OperandView& view_;
  const T* source_;
  T elements_[kTileElements];
};

}  // namespace traingraph::cpu
