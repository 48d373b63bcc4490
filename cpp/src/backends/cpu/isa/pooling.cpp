// Pooling gathers in both directions: a result reads its window, an element of the source reads
// every window that covers it, so each element is written once. Vectors hold channels.
#include "backends/cpu/isa/pooling.h"

#include <concepts>
#include <cstring>
#include <type_traits>

#include "backends/cpu/isa/half_vector.h"
#include "backends/cpu/isa/pooling_rows.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {
namespace {

template <int kCount>
using Floats = typename VectorOf<kCount>::type;
template <int kCount>
using Numbers = typename VectorOf<kCount>::integers;

template <int kCount>
struct BytesOf {
  typedef std::uint8_t type __attribute__((vector_size(kCount)));
};

// Elements of float32 or of 16 bits, in float32.
template <int kCount, class T>
TRAINGRAPH_INLINE Floats<kCount> load_as(const T* x) {
  if constexpr (std::same_as<T, float>) {
    return load<kCount>(x);
  } else if constexpr (kCount == kLanes) {
    return load(x);
  } else if constexpr (kCount == 1) {
    return number(*x);
  } else {
    Floats<kCount> v;
    for (int i = 0; i < kCount; ++i) v[i] = number(x[i]);
    return v;
  }
}

template <int kCount, class T>
TRAINGRAPH_INLINE void store_as(T* x, Floats<kCount> v) {
  if constexpr (std::same_as<T, float>) {
    store<kCount>(x, v);
  } else if constexpr (kCount == kLanes) {
    store(x, v);
  } else if constexpr (kCount == 1) {
    *x = rounded(v, T{});
  } else {
    for (int i = 0; i < kCount; ++i) x[i] = rounded(v[i], T{});
  }
}

// Bytes to int32 and back, each below 256: GCC converts element by element.
template <int kCount>
TRAINGRAPH_INLINE Numbers<kCount> widened_bytes(const std::uint8_t* x) {
  typename BytesOf<kCount>::type bytes;
  std::memcpy(&bytes, x, kCount);
#if defined(__AVX512F__)
  if constexpr (kCount == 16) {
    const __m128i all = reinterpret_cast<__m128i>(bytes);
    return reinterpret_cast<Numbers<16>>(_mm512_maskz_cvtepu8_epi32(0xffff, all));
  }
#endif
#if defined(__AVX2__)
  if constexpr (kCount == 8) {
    std::int64_t eight;
    std::memcpy(&eight, &bytes, sizeof eight);
    return reinterpret_cast<Numbers<8>>(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(eight)));
  }
#endif
#if defined(__SSE4_1__)
  if constexpr (kCount == 4) {
    std::int32_t four;
    std::memcpy(&four, &bytes, sizeof four);
    return reinterpret_cast<Numbers<4>>(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(four)));
  }
#endif
  return __builtin_convertvector(bytes, Numbers<kCount>);
}

template <int kCount>
TRAINGRAPH_INLINE void narrow_to_bytes(std::uint8_t* x, Numbers<kCount> value) {
#if defined(__AVX512F__)
  if constexpr (kCount == 16) {
    const __m128i all = _mm512_maskz_cvtepi32_epi8(0xffff, reinterpret_cast<__m512i>(value));
    std::memcpy(x, &all, sizeof all);
    return;
  }
#endif
#if defined(__AVX2__)
  if constexpr (kCount == 8) {
    const __m256i all = reinterpret_cast<__m256i>(value);
    const __m128i words =
        _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    const std::int64_t eight = _mm_cvtsi128_si64(_mm_packus_epi16(words, words));
    std::memcpy(x, &eight, sizeof eight);
    return;
  }
#endif
#if defined(__SSE4_1__)
  if constexpr (kCount == 4) {
    const __m128i all = reinterpret_cast<__m128i>(value);
    const __m128i words = _mm_packus_epi32(all, all);
    const std::int32_t four = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    std::memcpy(x, &four, sizeof four);
    return;
  }
#endif
  const auto bytes = __builtin_convertvector(value, typename BytesOf<kCount>::type);
  std::memcpy(x, &bytes, sizeof bytes);
}

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
    return widened_bytes<kCount>(static_cast<const std::uint8_t*>(index) + at);
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
    narrow_to_bytes<kCount>(static_cast<std::uint8_t*>(index) + at, value);
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

template <bool kIndexed, class T>
void maximum_as(const PoolingPlane& given, const T* x, T* y, void* index, std::int64_t begin,
                std::int64_t end) {
  const PoolingPlane plane = given;  // which stores cannot change
  each_position(plane, begin, end, [&](auto count, const Position& p) {
    constexpr int kCount = decltype(count)::value;
    Floats<kCount> best{};
    Numbers<kCount> place{};
    bool first = true;
    each_tap(plane, p, [&](std::int64_t at, Tap row, Tap column) {
      const Floats<kCount> v = load_as<kCount>(x + at);
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
    store_as<kCount>(y + p.target, best);
    if constexpr (kIndexed) store_index<kCount>(index, p.target, place, plane.wide_index);
  });
}

template <class T>
void maximum(const PoolingPlane& plane, const void* from, void* to, void* index, std::int64_t begin,
             std::int64_t end) {
  const T* const x = static_cast<const T*>(from);
  T* const y = static_cast<T*>(to);
  if constexpr (std::same_as<T, float>) {
    if (plane.lanes == 1) return maximum_rows(plane, x, y, index, begin, end);
  }
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

template <class T>
void maximum_gradient(const PoolingPlane& given, const void* from, const void* index, void* to,
                      std::int64_t begin, std::int64_t end) {
  const T* const dy = static_cast<const T*>(from);
  T* const dx = static_cast<T*>(to);
  if constexpr (std::same_as<T, float>) {
    if (given.lanes == 1) return maximum_gradient_rows(given, dy, index, dx, begin, end);
  }
  const PoolingPlane plane = given;  // which stores cannot change
  each_position(plane, begin, end, [&](auto count, const Position& p) {
    constexpr int kCount = decltype(count)::value;
    Floats<kCount> sum{};
    each_tap(plane, p, [&](std::int64_t at, Tap row, Tap column) {
      const std::int32_t tap = row.tap * plane.kernel_columns + column.tap;
      const auto mine = load_index<kCount>(index, at, plane.wide_index) == tap;
      sum += mine ? load_as<kCount>(dy + at) : Floats<kCount>{};
    });
    store_as<kCount>(dx + p.target, sum);
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
const PoolingLoops pooling_loops{
    {maximum<float>, maximum<Float16>, maximum<BFloat16>},
    {maximum_gradient<float>, maximum_gradient<Float16>, maximum_gradient<BFloat16>},
    average,
    l2_norm,
    average_gradient,
    l2_norm_gradient};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
