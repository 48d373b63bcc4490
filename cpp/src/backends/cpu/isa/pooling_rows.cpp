// Pooling of plain planes (H, W): each tap of the window is a run of shifted elements of a row, in
// both directions.
#include "backends/cpu/isa/pooling_rows.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {
namespace {

constexpr std::int64_t kTile = 256;  // results of a row at a time

// Results [first, last) of those in [begin, end) whose tap `tap` lies in a row of x of `columns`,
// and the column of x that result 0 would read.
struct TapRun {
  std::int64_t first, last, shift;

  TapRun(const PoolingPlane& p, std::int64_t columns, std::int64_t tap, std::int64_t begin,
         std::int64_t end)
      : first(begin), last(end), shift(tap * p.column_dilation - p.column_padding) {
    const std::int64_t s = p.column_stride;
    if (shift < 0 && (-shift + s - 1) / s > first) first = (-shift + s - 1) / s;
    const std::int64_t room = columns - 1 - shift;
    const std::int64_t bound = room < 0 ? 0 : room / s + 1;
    if (bound < last) last = bound;
  }
};

// body(result, column of x), for strides that the compiler knows and others.
template <class Body>
__attribute__((always_inline)) inline void each_result(const TapRun& run, std::int64_t stride,
                                                       const Body& body) {
  if (stride == 1) {
#pragma omp simd
    for (std::int64_t q = run.first; q < run.last; ++q) body(q, q + run.shift);
  } else if (stride == 2) {
#pragma omp simd
    for (std::int64_t q = run.first; q < run.last; ++q) body(q, 2 * q + run.shift);
  } else {
    for (std::int64_t q = run.first; q < run.last; ++q) body(q, q * stride + run.shift);
  }
}

void store_places(const std::int32_t* places, void* index, std::int64_t at, std::int64_t count,
                  bool wide) {
  if (wide) {
    std::int32_t* to = static_cast<std::int32_t*>(index) + at;
    for (std::int64_t i = 0; i < count; ++i) to[i] = places[i];
  } else {
    std::uint8_t* to = static_cast<std::uint8_t*>(index) + at;
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(places[i]);
  }
}

}  // namespace

void maximum_rows(const PoolingPlane& plane, const float* x, float* y, void* index,
                  std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    for (std::int64_t start = 0; start < plane.target_columns; start += kTile) {
      const std::int64_t stop =
          start + kTile < plane.target_columns ? start + kTile : plane.target_columns;
      float best[kTile];
      std::int32_t places[kTile];
      for (std::int64_t i = 0; i < stop - start; ++i) {
        best[i] = -__builtin_inff();
        places[i] = -1;
      }
      for (std::int32_t i = plane.rows.begin[row]; i < plane.rows.begin[row + 1]; ++i) {
        const float* from = x + plane.rows.taps[i].source * plane.source_columns;
        for (std::int32_t j = plane.first_column_tap; j < plane.end_column_tap; ++j) {
          const std::int32_t tap = plane.rows.taps[i].tap * plane.kernel_columns + j;
          const TapRun run(plane, plane.source_columns, j, start, stop);
          each_result(run, plane.column_stride,
                      [&](std::int64_t q, std::int64_t column) __attribute__((always_inline)) {
                        const float v = from[column];
                        const float old = best[q - start];
                        const std::int32_t place = places[q - start];
                        const bool wins = (v > old) | (place < 0) | ((v != v) & (old == old));
                        best[q - start] = wins ? v : old;
                        places[q - start] = wins ? tap : place;
                      });
        }
      }
      const std::int64_t at = row * plane.target_columns + start;
      for (std::int64_t i = 0; i < stop - start; ++i) y[at + i] = best[i];
      if (index != nullptr) store_places(places, index, at, stop - start, plane.wide_index);
    }
  }
}

void sum_rows(const PoolingPlane& plane, bool l2_norm, const float* x, float* y, std::int64_t begin,
              std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    float* to = y + row * plane.target_columns;
    for (std::int64_t q = 0; q < plane.target_columns; ++q) to[q] = 0;
    for (std::int32_t i = plane.rows.begin[row]; i < plane.rows.begin[row + 1]; ++i) {
      const float* from = x + plane.rows.taps[i].source * plane.source_columns;
      for (std::int32_t j = plane.first_column_tap; j < plane.end_column_tap; ++j) {
        const TapRun run(plane, plane.source_columns, j, 0, plane.target_columns);
        if (l2_norm) {
          each_result(run, plane.column_stride,
                      [=](std::int64_t q, std::int64_t column)
                          __attribute__((always_inline)) { to[q] += from[column] * from[column]; });
        } else {
          each_result(run, plane.column_stride,
                      [=](std::int64_t q, std::int64_t column)
                          __attribute__((always_inline)) { to[q] += from[column]; });
        }
      }
    }
    if (l2_norm) {
#pragma omp simd
      for (std::int64_t q = 0; q < plane.target_columns; ++q) to[q] = __builtin_sqrtf(to[q]);
    } else {
      const float factor = plane.row_factors[row];
#pragma omp simd
      for (std::int64_t q = 0; q < plane.target_columns; ++q) {
        to[q] *= factor * plane.column_factors[q];
      }
    }
  }
}

// Rows of dx; each adds up what its windows send. Taps of one window reach different columns, so
// the results of a row can be taken in any order.
void maximum_gradient_rows(const PoolingPlane& plane, const float* dy, const void* index, float* dx,
                           std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    float* to = dx + row * plane.target_columns;
    for (std::int64_t w = 0; w < plane.target_columns; ++w) to[w] = 0;
    for (std::int32_t i = plane.rows.begin[row]; i < plane.rows.begin[row + 1]; ++i) {
      const std::int64_t base = plane.rows.taps[i].source * plane.source_columns;
      const float* from = dy + base;
      for (std::int32_t j = plane.first_column_tap; j < plane.end_column_tap; ++j) {
        const std::int32_t tap = plane.rows.taps[i].tap * plane.kernel_columns + j;
        const TapRun run(plane, plane.target_columns, j, 0, plane.source_columns);
        if (plane.wide_index) {
          const std::int32_t* places = static_cast<const std::int32_t*>(index) + base;
          each_result(run, plane.column_stride,
                      [=](std::int64_t q, std::int64_t column) __attribute__((always_inline)) {
                        to[column] += places[q] == tap ? from[q] : 0;
                      });
        } else {
          const std::uint8_t* places = static_cast<const std::uint8_t*>(index) + base;
          each_result(run, plane.column_stride,
                      [=](std::int64_t q, std::int64_t column) __attribute__((always_inline)) {
                        to[column] += places[q] == tap ? from[q] : 0;
                      });
        }
      }
    }
  }
}

void average_gradient_rows(const PoolingPlane& plane, const float* dy, float* dx,
                           std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    float* to = dx + row * plane.target_columns;
    for (std::int64_t w = 0; w < plane.target_columns; ++w) to[w] = 0;
    for (std::int32_t i = plane.rows.begin[row]; i < plane.rows.begin[row + 1]; ++i) {
      const std::int32_t source = plane.rows.taps[i].source;
      const float* from = dy + source * plane.source_columns;
      const float factor = plane.row_factors[source];
      const float* factors = plane.column_factors;
      for (std::int32_t j = plane.first_column_tap; j < plane.end_column_tap; ++j) {
        const TapRun run(plane, plane.target_columns, j, 0, plane.source_columns);
        each_result(run, plane.column_stride,
                    [=](std::int64_t q, std::int64_t column) __attribute__((always_inline)) {
                      to[column] += from[q] * (factor * factors[q]);
                    });
      }
    }
  }
}

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
