// Largest or smallest element along an axis and its place: vectors hold neighbouring columns, or
// neighbours of one row whose lanes are compared at the end.
#include "backends/cpu/isa/extremum.h"

#include <bit>
#include <cstring>

#include "backends/cpu/isa/vector.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {
namespace {

// The best of each lane so far, and where it was.
template <bool kLargest, int kCount>
struct Best {
  using V = typename VectorOf<kCount>::type;
  using I = typename VectorOf<kCount>::integers;
  V value;
  I place;

  TRAINGRAPH_INLINE void take(V other, I where) {
    const auto better = kLargest ? other > value : other < value;
    // NaN is better than a number; nothing is better than NaN.
    const auto takes = (better | (other != other)) & (value == value);
    value = takes ? other : value;
    place = takes ? where : place;
  }
};

void store_place(void* places, std::int64_t at, std::int32_t place, bool numbers) {
  const std::int32_t bits =
      numbers ? std::bit_cast<std::int32_t>(static_cast<float>(place)) : place;
  std::memcpy(static_cast<std::byte*>(places) + 4 * at, &bits, 4);
}

template <bool kLargest, int kCount>
void columns_of(const float* x, std::int64_t depth, std::int64_t step, bool numbers, float* y,
                void* places, std::int64_t at) {
  using B = Best<kLargest, kCount>;
  B best{load<kCount>(x), typename B::I{}};
  for (std::int64_t k = 1; k < depth; ++k) {
    best.take(load<kCount>(x + k * step), static_cast<std::int32_t>(k) - typename B::I{});
  }
  store<kCount>(y + at, best.value);
  for (int lane = 0; lane < kCount; ++lane) {
    if constexpr (kCount == 1) {
      store_place(places, at, best.place, numbers);
    } else {
      store_place(places, at + lane, best.place[lane], numbers);
    }
  }
}

// Neighbours are compared in lanes, and lanes at the end.
template <bool kLargest>
void row_of(const float* x, std::int64_t depth, bool numbers, float* y, void* places) {
  Best<kLargest, 1> best{x[0], 0};
  std::int64_t k = 1;
  if (depth >= 2 * kLanes) {
    Integers where{};
    for (int lane = 0; lane < kLanes; ++lane) where[lane] = lane;
    Best<kLargest, kLanes> lanes{load(x), where};
    for (k = kLanes; k + kLanes <= depth; k += kLanes) {
      where += static_cast<std::int32_t>(kLanes);
      lanes.take(load(x + k), where);
    }
    best = {lanes.value[0], lanes.place[0]};
    for (int lane = 1; lane < kLanes; ++lane) {
      const float value = lanes.value[lane];
      const std::int32_t place = lanes.place[lane];
      // The earlier one of equals, and of those that are no numbers.
      const bool same = value == best.value || (value != value && best.value != best.value);
      if (same && place < best.place) best.place = place;
      if (!same) best.take(value, place);
    }
  }
  for (; k < depth; ++k) best.take(x[k], static_cast<std::int32_t>(k));
  *y = best.value;
  store_place(places, 0, best.place, numbers);
}

template <bool kLargest>
void along_axis(const float* x, std::int64_t depth, std::int64_t step, std::int64_t columns,
                bool numbers, float* y, void* places) {
  if (step == 1) return row_of<kLargest>(x, depth, numbers, y, places);
  std::int64_t at = 0;
  for (; at + kLanes <= columns; at += kLanes) {
    columns_of<kLargest, kLanes>(x + at, depth, step, numbers, y, places, at);
  }
  for (; at < columns; ++at) {
    columns_of<kLargest, 1>(x + at, depth, step, numbers, y, places, at);
  }
}

void along(const float* x, std::int64_t depth, std::int64_t step, std::int64_t columns,
           bool largest, bool numbers, float* y, void* places) {
  if (largest) {
    along_axis<true>(x, depth, step, columns, numbers, y, places);
  } else {
    along_axis<false>(x, depth, step, columns, numbers, y, places);
  }
}

}  // namespace

extern const ExtremumLoops extremum_loops;
const ExtremumLoops extremum_loops{along};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
