// Pooling gathers in both directions: a result reads its window, an element of the source reads
// every window that covers it, so each element is written once. Vectors hold channels.
#include "backends/cpu/isa/pooling.h"

#include <type_traits>

#include "backends/cpu/isa/pooling_rows.h"
#include "backends/cpu/isa/vector.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {
namespace {

template <int kCount>
using Floats = typename VectorOf<kCount>::type;
template <int kCount>
using Numbers = typename VectorOf<kCount>::integers;

template <int kCount>
struct BytesOf {
  typedef std::uint8_t type __attribute__((vector_size(kCount), aligned(1), may_alias));
};

// Window indices of kCount neighbouring channels, bytes or int32.
template <int kCount>
TRAINGRAPH_INLINE Numbers<kCount> load_index(const void* index, std::int64_t at, bool wide) {
  if constexpr (kCount == 1) {
    return wide ? static_cast<const std::int32_t*>(index)[at]
                : static_cast<const std::uint8_t*>(index)[at];
  } else {
    if (wide) {
      return Numbers<kCount>(load<kCount>(static_cast<const float*>(index) + at));
    }
    using Bytes = typename BytesOf<kCount>::type;
    return __builtin_convertvector(
        *reinterpret_cast<const Bytes*>(static_cast<const std::uint8_t*>(index) + at),
        Numbers<kCount>);
  }
}

template <int kCount>
TRAINGRAPH_INLINE void store_index(void* index, std::int64_t at, Numbers<kCount> value, bool wide) {
  if constexpr (kCount == 1) {
    if (wide) {
      static_cast<std::int32_t*>(index)[at] = value;
    } else {
      static_cast<std::uint8_t*>(index)[at] = static_cast<std::uint8_t>(value);
    }
  } else if (wide) {
    store<kCount>(static_cast<float*>(index) + at, Floats<kCount>(value));
  } else {
    using Bytes = typename BytesOf<kCount>::type;
    *reinterpret_cast<Bytes*>(static_cast<std::uint8_t*>(index) + at) =
        __builtin_convertvector(value, Bytes);
  }
}

struct Position {
  std::int64_t row, column;
  std::int64_t target;  // offset of channel `lane`
  std::int64_t lane;
};

// body(count, position) for so many channels at a time; the count is an integral_constant.
template <class Body>
TRAINGRAPH_INLINE void each_position(const PoolingPlane& plane, std::int64_t begin,
                                     std::int64_t end, const Body& body) {
  for (std::int64_t row = begin; row < end; ++row) {
    for (std::int64_t column = 0; column < plane.target_columns; ++column) {
      const std::int64_t at = (row * plane.target_columns + column) * plane.lanes;
      std::int64_t lane = 0;
      for (; lane + kLanes <= plane.lanes; lane += kLanes) {
        body(std::integral_constant<int, kLanes>{}, Position{row, column, at + lane, lane});
      }
      if constexpr (kLanes > 4) {
        for (; lane + 4 <= plane.lanes; lane += 4) {
          body(std::integral_constant<int, 4>{}, Position{row, column, at + lane, lane});
        }
      }
      for (; lane < plane.lanes; ++lane) {
        body(std::integral_constant<int, 1>{}, Position{row, column, at + lane, lane});
      }
    }
  }
}

// f(offset in the source, row entry, column entry) for each tap of a target.
template <class F>
TRAINGRAPH_INLINE void each_tap(const PoolingPlane& plane, const Position& p, const F& f) {
  const std::int32_t last_row = plane.rows.begin[p.row + 1];
  const std::int32_t first_column = plane.columns.begin[p.column];
  const std::int32_t last_column = plane.columns.begin[p.column + 1];
  for (std::int32_t i = plane.rows.begin[p.row]; i < last_row; ++i) {
    const Tap row = plane.rows.taps[i];
    const std::int64_t base = row.source * plane.source_columns * plane.lanes + p.lane;
    for (std::int32_t j = first_column; j < last_column; ++j) {
      const Tap column = plane.columns.taps[j];
      f(base + column.source * plane.lanes, row, column);
    }
  }
}

template <bool kIndexed>
void maximum_as(const PoolingPlane& plane, const float* x, float* y, void* index,
                std::int64_t begin, std::int64_t end) {
  each_position(plane, begin, end, [&](auto count, const Position& p) {
    constexpr int kCount = decltype(count)::value;
    Floats<kCount> best{};
    Numbers<kCount> place{};
    bool first = true;
    each_tap(plane, p, [&](std::int64_t at, Tap row, Tap column) {
      const Floats<kCount> v = load<kCount>(x + at);
      const std::int32_t tap = row.tap * plane.kernel_columns + column.tap;
      if (first) {
        best = v;
        place = tap - Numbers<kCount>{};
        first = false;
        return;
      }
      // The first largest element wins; NaN wins over every number.
      const auto wins = (v > best) | ((v != v) & (best == best));
      best = wins ? v : best;
      if constexpr (kIndexed) place = wins ? tap - Numbers<kCount>{} : place;
    });
    store<kCount>(y + p.target, best);
    if constexpr (kIndexed) store_index<kCount>(index, p.target, place, plane.wide_index);
  });
}

void maximum(const PoolingPlane& plane, const float* x, float* y, void* index, std::int64_t begin,
             std::int64_t end) {
  if (plane.lanes == 1) return maximum_rows(plane, x, y, index, begin, end);
  if (index != nullptr) return maximum_as<true>(plane, x, y, index, begin, end);
  maximum_as<false>(plane, x, y, nullptr, begin, end);
}

void average(const PoolingPlane& plane, const float* x, float* y, std::int64_t begin,
             std::int64_t end) {
  if (plane.lanes == 1) return sum_rows(plane, false, x, y, begin, end);
  each_position(plane, begin, end, [&](auto count, const Position& p) {
    constexpr int kCount = decltype(count)::value;
    Floats<kCount> sum{};
    each_tap(plane, p, [&](std::int64_t at, Tap, Tap) { sum += load<kCount>(x + at); });
    store<kCount>(y + p.target, sum * (plane.row_factors[p.row] * plane.column_factors[p.column]));
  });
}

void l2_norm(const PoolingPlane& plane, const float* x, float* y, std::int64_t begin,
             std::int64_t end) {
  if (plane.lanes == 1) return sum_rows(plane, true, x, y, begin, end);
  each_position(plane, begin, end, [&](auto count, const Position& p) {
    constexpr int kCount = decltype(count)::value;
    Floats<kCount> sum{};
    each_tap(plane, p, [&](std::int64_t at, Tap, Tap) {
      const Floats<kCount> v = load<kCount>(x + at);
      sum += v * v;
    });
    float lanes[kCount];
    store<kCount>(lanes, sum);
    for (int i = 0; i < kCount; ++i) y[p.target + i] = __builtin_sqrtf(lanes[i]);
  });
}

void maximum_gradient(const PoolingPlane& plane, const float* dy, const void* index, float* dx,
                      std::int64_t begin, std::int64_t end) {
  if (plane.lanes == 1) return maximum_gradient_rows(plane, dy, index, dx, begin, end);
  each_position(plane, begin, end, [&](auto count, const Position& p) {
    constexpr int kCount = decltype(count)::value;
    Floats<kCount> sum{};
    each_tap(plane, p, [&](std::int64_t at, Tap row, Tap column) {
      const std::int32_t tap = row.tap * plane.kernel_columns + column.tap;
      const auto mine = load_index<kCount>(index, at, plane.wide_index) == tap;
      sum += mine ? load<kCount>(dy + at) : Floats<kCount>{};
    });
    store<kCount>(dx + p.target, sum);
  });
}

void average_gradient(const PoolingPlane& plane, const float* dy, float* dx, std::int64_t begin,
                      std::int64_t end) {
  if (plane.lanes == 1) return average_gradient_rows(plane, dy, dx, begin, end);
  each_position(plane, begin, end, [&](auto count, const Position& p) {
    constexpr int kCount = decltype(count)::value;
    Floats<kCount> sum{};
    each_tap(plane, p, [&](std::int64_t at, Tap row, Tap column) {
      sum += load<kCount>(dy + at) *
             (plane.row_factors[row.source] * plane.column_factors[column.source]);
    });
    store<kCount>(dx + p.target, sum);
  });
}

void l2_norm_gradient(const PoolingPlane& plane, const float* dy, const float* x, const float* y,
                      float* dx, std::int64_t begin, std::int64_t end) {
  each_position(plane, begin, end, [&](auto count, const Position& p) {
    constexpr int kCount = decltype(count)::value;
    const Floats<kCount> source = load<kCount>(x + p.target);
    Floats<kCount> sum{};
    each_tap(plane, p, [&](std::int64_t at, Tap, Tap) {
      const Floats<kCount> norm = load<kCount>(y + at);
      // At 0 there is no derivative; the gradient is 0.
      sum += norm == 0.0f ? Floats<kCount>{} : load<kCount>(dy + at) * source / norm;
    });
    store<kCount>(dx + p.target, sum);
  });
}

}  // namespace

extern const PoolingLoops pooling_loops;
const PoolingLoops pooling_loops{maximum,          average,          l2_norm,
                                 maximum_gradient, average_gradient, l2_norm_gradient};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
