// Products of tiles in shared memory by a warp on tensor cores: of 16-bit elements, TF32, and
// float32 in three products of TF32. For .cu files only.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backends/cuda/device/storage.h"

namespace traingraph::cuda {

// Four matrices of eight rows of 16 bytes. Lane l has the address of row l % 8 of matrix l / 8. It
// gets the 4 bytes l % 4 of row l / 4 of each.
__device__ inline void load_matrices(std::uint32_t (&to)[4], const void* row) {
#if __CUDA_ARCH__ >= 800
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at)
               : "memory");
#endif
}

// The same of 16-bit elements, each matrix transposed.
__device__ inline void load_transposed(std::uint32_t (&to)[4], const void* row) {
#if __CUDA_ARCH__ >= 800
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at)
               : "memory");
#endif
}

// Operands of one instruction: 16 rows of the left one, 8 columns of the right one, 32 bytes of
// depth.
struct Left {
  std::uint32_t of[4];
};
struct Right {
  std::uint32_t of[2];
};
// 16 x 8 sums. With g = lane / 4 and t = lane % 4: 0 and 1 are columns 2 t and 2 t + 1 of row g, 2
// and 3 the same of row g + 8.
struct WarpSums {
  float of[4] = {};
};

__device__ inline void multiply_add(WarpSums& sums, const Left& a, const Right& b, __half) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums.of[0]), "+f"(sums.of[1]), "+f"(sums.of[2]), "+f"(sums.of[3])
      : "r"(a.of[0]), "r"(a.of[1]), "r"(a.of[2]), "r"(a.of[3]), "r"(b.of[0]), "r"(b.of[1]));
#endif
}
__device__ inline void multiply_add(WarpSums& sums, const Left& a, const Right& b, __nv_bfloat16) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums.of[0]), "+f"(sums.of[1]), "+f"(sums.of[2]), "+f"(sums.of[3])
      : "r"(a.of[0]), "r"(a.of[1]), "r"(a.of[2]), "r"(a.of[3]), "r"(b.of[0]), "r"(b.of[1]));
#endif
}
// Operands are truncated to TF32.
__device__ inline void multiply_add(WarpSums& sums, const Left& a, const Right& b, float) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums.of[0]), "+f"(sums.of[1]), "+f"(sums.of[2]), "+f"(sums.of[3])
      : "r"(a.of[0]), "r"(a.of[1]), "r"(a.of[2]), "r"(a.of[3]), "r"(b.of[0]), "r"(b.of[1]));
#endif
}

// Elements from row to row of a tile. Eight rows have different banks.
template <class S>
constexpr int tile_pitch(int columns) {
  return columns + 16 / static_cast<int>(sizeof(S));
}

// Tiles whose rows have this pitch. A warp reads its 16 kGroups rows of the left operand as it
// multiplies.
template <class S>
struct PitchedTiles {
  static constexpr bool kIsWarpgroup = false;
  static constexpr std::size_t kAlignment = 16;
  template <int kFeatures>
  static constexpr int kPitch = tile_pitch<S>(kFeatures);
  template <int kFeatures>
  __device__ static int place(int row, int column) {
    return row * kPitch<kFeatures> + column;
  }
  __device__ static void fence() {}
  template <int kFeatures, int kGroups>
  __device__ static const S* rows(const S* tile, int warp) {
    return tile + warp * 16 * kGroups * kPitch<kFeatures>;
  }
};

// Products of the tensor cores. A product and its transposed have the same bits.
template <class S>
struct TensorCoreProducts : PitchedTiles<S> {
  static constexpr bool kIsFull = false;
  static constexpr int kDepth = 32 / sizeof(S);  // of one instruction
  static constexpr int kPad = 16 / sizeof(S);    // elements of 16 bytes

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  // 16 rows from `at` on.
  __device__ static Left left(const S* at, int pitch) {
    Left a;
    load_matrices(a.of, at + lane() % 16 * pitch + lane() / 16 * kPad);
    return a;
  }
  // WarpSums as a left operand: row = row, column = depth.
  __device__ static Left left(const WarpSums* sums) {
    Left a;
    if constexpr (sizeof(S) == 2) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        alignas(4) S pair[2];
        narrow_pair(&sums[i / 2].of[i % 2 * 2], pair);
        a.of[i] = *reinterpret_cast<const std::uint32_t*>(pair);
      }
    } else {
      // The order of the depth is free: columns 2 t come first, as in right_of_columns().
      constexpr int kFrom[] = {0, 2, 1, 3};
#pragma unroll
      for (int i = 0; i < 4; ++i) a.of[i] = __float_as_uint(sums->of[kFrom[i]]);
    }
    return a;
  }
  // The transposed of eight rows from `at` on, of two depths.
  __device__ static void right_of_rows(const S* at, int pitch, Right (&two)[2]) {
    std::uint32_t words[4];
    load_matrices(words, at + lane() % 8 * pitch + lane() / 8 * kPad);
#pragma unroll
    for (int i = 0; i < 4; ++i) two[i / 2].of[i % 2] = words[i];
  }
  // kDepth rows from `at` on, of 16 columns.
  __device__ static void right_of_columns(const S* at, int pitch, Right (&two)[2]) {
    if constexpr (sizeof(S) == 2) {
      std::uint32_t words[4];
      load_transposed(words, at + lane() % 16 * pitch + lane() / 16 * kPad);
#pragma unroll
      for (int i = 0; i < 4; ++i) two[i / 2].of[i % 2] = words[i];
    } else {
      const S* const own = at + lane() % 4 * 2 * pitch + lane() / 4;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        two[i / 2].of[i % 2] = __float_as_uint(own[i % 2 * pitch + i / 2 * 8]);
      }
    }
  }

  // 16 kGroups rows of a times the transposed of 8 kCount rows of b, summed over kFeatures columns.
  template <int kFeatures, int kGroups, int kCount>
  __device__ static void dot(const S* a, const S* b, WarpSums (&sums)[kGroups][kCount]) {
    constexpr int kPitch = tile_pitch<S>(kFeatures);
#pragma unroll
    for (int i = 0; i < kGroups * kCount; ++i) sums[i / kCount][i % kCount] = WarpSums();
#pragma unroll
    for (int depth = 0; depth < kFeatures; depth += 2 * kDepth) {
      Left own[kGroups][2];
#pragma unroll
      for (int i = 0; i < 2 * kGroups; ++i) {
        own[i / 2][i % 2] = left(a + i / 2 * 16 * kPitch + depth + i % 2 * kDepth, kPitch);
      }
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        Right two[2];
        right_of_rows(b + j * 8 * kPitch + depth, kPitch, two);
#pragma unroll
        for (int i = 0; i < 2 * kGroups; ++i) {
          multiply_add(sums[i % kGroups][j], own[i % kGroups][i / kGroups], two[i / kGroups], S());
        }
      }
    }
  }

  // results += weights times 8 kCount rows of b, of kColumns columns.
  template <int kColumns, int kGroups, int kCount>
  __device__ static void accumulate(const WarpSums (&weights)[kGroups][kCount], const S* b,
                                    int pitch, WarpSums (&results)[kGroups][kColumns / 8]) {
#pragma unroll
    for (int column = 0; column < kColumns; column += 16) {
#pragma unroll
      for (int depth = 0; depth < 8 * kCount; depth += kDepth) {
        Right two[2];
        right_of_columns(b + depth * pitch + column, pitch, two);
#pragma unroll
        for (int m = 0; m < kGroups; ++m) {
          const Left a = left(&weights[m][depth / 8]);
#pragma unroll
          for (int i = 0; i < 2; ++i) multiply_add(results[m][column / 8 + i], a, two[i], S());
        }
      }
    }
  }
};

// An operand of float32 as the sum of two of TF32, but for its last bit. Of an infinite one the
// small part is NaN.
template <class Operand>
struct Split {
  Operand large, small;

  Split() = default;
  __device__ explicit Split(const Operand& x) {
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(x.of) / sizeof(x.of[0])); ++i) {
      large.of[i] = (x.of[i] + 0x1000u) & ~0x1fffu;  // to the nearest
      small.of[i] = __float_as_uint(__uint_as_float(x.of[i]) - __uint_as_float(large.of[i]));
    }
  }
};

// The same to the precision of float32: three products of parts of the operands, all but that of
// the small ones. Tensor cores truncate sums, so those of large products are short. kTransposed: a
// product has the bits that the transposed one has without.
template <bool kTransposed>
struct SplitProducts : TensorCoreProducts<float> {
  using Base = TensorCoreProducts<float>;
  static constexpr bool kIsFull = true;

  template <int kFeatures, int kGroups, int kCount>
  __device__ static void dot(const float* a, const float* b, WarpSums (&sums)[kGroups][kCount]) {
    constexpr int kPitch = tile_pitch<float>(kFeatures);
    constexpr int kChunk = 2;  // of 8 columns
    constexpr int kShort = kFeatures < 64 ? kFeatures : 64;
#pragma unroll
    for (int chunk = 0; chunk < kCount; chunk += kChunk) {
      WarpSums small[kGroups][kChunk];
#pragma unroll
      for (int first = 0; first < kFeatures; first += kShort) {
        WarpSums large[kGroups][kChunk];
#pragma unroll
        for (int depth = first; depth < first + kShort; depth += 2 * kDepth) {
          Split<Left> own[kGroups][2];
#pragma unroll
          for (int k = 0; k < 2 * kGroups; ++k) {
            own[k / 2][k % 2] =
                Split(left(a + k / 2 * 16 * kPitch + depth + k % 2 * kDepth, kPitch));
          }
#pragma unroll
          for (int j = 0; j < kChunk; ++j) {
            Right two[2];
            right_of_rows(b + (chunk + j) * 8 * kPitch + depth, kPitch, two);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const Split other(two[half]);
#pragma unroll
              for (int m = 0; m < kGroups; ++m) {
                const Split<Left>& row = own[m][half];
                multiply_add(small[m][j], kTransposed ? row.large : row.small,
                             kTransposed ? other.small : other.large, 0.0f);
                multiply_add(small[m][j], kTransposed ? row.small : row.large,
                             kTransposed ? other.large : other.small, 0.0f);
                multiply_add(large[m][j], row.large, other.large, 0.0f);
              }
            }
          }
        }
#pragma unroll
        for (int k = 0; k < kGroups * kChunk * 4; ++k) {
          const int m = k / 4 / kChunk, j = k / 4 % kChunk, i = k % 4;
          float& sum = sums[m][chunk + j].of[i];
          sum = first == 0 ? large[m][j].of[i] : sum + large[m][j].of[i];
          if (first + kShort == kFeatures) sum += small[m][j].of[i];
        }
      }
    }
  }

  template <int kColumns, int kGroups, int kCount>
  __device__ static void accumulate(const WarpSums (&weights)[kGroups][kCount], const float* b,
                                    int pitch, WarpSums (&results)[kGroups][kColumns / 8]) {
#pragma unroll
    for (int column = 0; column < kColumns; column += 16) {
      WarpSums large[kGroups][2], small[kGroups][2];
#pragma unroll
      for (int depth = 0; depth < 8 * kCount; depth += kDepth) {
        Right two[2];
        right_of_columns(b + depth * pitch + column, pitch, two);
        const Split<Right> others[2] = {Split(two[0]), Split(two[1])};
#pragma unroll
        for (int m = 0; m < kGroups; ++m) {
          const Split own(left(&weights[m][depth / 8]));
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            multiply_add(small[m][i], own.small, others[i].large, 0.0f);
            multiply_add(small[m][i], own.large, others[i].small, 0.0f);
            multiply_add(large[m][i], own.large, others[i].large, 0.0f);
          }
        }
      }
#pragma unroll
      for (int k = 0; k < kGroups * 2 * 4; ++k) {
        const int m = k / 8, i = k / 4 % 2;
        results[m][column / 8 + i].of[k % 4] += large[m][i].of[k % 4] + small[m][i].of[k % 4];
      }
    }
  }
};

template <class S, bool kFull, bool kTransposed = false>
struct WarpProducts : std::conditional_t<kFull, SplitProducts<kTransposed>, TensorCoreProducts<S>> {
  using Base = std::conditional_t<kFull, SplitProducts<kTransposed>, TensorCoreProducts<S>>;

  // Two products, and what is to be done with the first one.
  template <int kFeatures, class Sums, class F>
  __device__ static void dots(const S* a, const S* b, Sums& sums, const S* other_a,
                              const S* other_b, Sums& others, const F& between) {
    Base::template dot<kFeatures>(a, b, sums);
    Base::template dot<kFeatures>(other_a, other_b, others);
    between();
  }
  template <int kColumns, class Weights, class Sums>
  __device__ static void accumulate_both(const Weights& weights, const S* b, Sums& results,
                                         const Weights& other_weights, const S* other_b,
                                         Sums& other_results, int pitch) {
    Base::template accumulate<kColumns>(weights, b, pitch, results);
    Base::template accumulate<kColumns>(other_weights, other_b, pitch, other_results);
  }
};

}  // namespace traingraph::cuda
