// Products of tiles of 64 rows and 64 features of 16 bits by a warpgroup, with WGMMA. For .cu files
// only.
#pragma once

#include <type_traits>

#include "backends/cuda/device/wgmma.h"
#include "backends/cuda/products/warp_products.h"

namespace traingraph::cuda {

// Rows of 128 bytes whose pieces of 16 are permuted by the number of the row, as WGMMA reads them.
// The left operand, 64 rows, is in registers.
template <class S>
struct WarpgroupProducts {
  static constexpr bool kIsExact = false, kIsWarpgroup = true;
  static constexpr int kSide = 64, kSteps = kSide / 16;
  static constexpr std::size_t kAlignment = 1024;  // of tiles, in bytes

  template <int kFeatures>
  static constexpr int kPitch = kFeatures;
  // The element of a row and column.
  template <int kFeatures>
  __device__ static int place(int row, int column) {
    static_assert(kFeatures == kSide);
    return row * kSide + (column / 8 ^ row % 8) * 8 + column % 8;
  }

  // What threads have written is read by WGMMA after the next barrier.
  __device__ static void fence() { fence_async_proxy(); }

  struct Rows {
    std::uint32_t of[kSteps][4];
  };
  template <int kFeatures, int kGroups>
  __device__ static Rows rows(const S* tile, int warp) {
    static_assert(kGroups == 1);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    Rows rows;
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      load_matrices(rows.of[k],
                    tile + place<kFeatures>(warp * 16 + lane % 16, k * 16 + lane / 16 * 8));
    }
    return rows;
  }

  using Sums = WarpSums[1][kSide / 8];

  // 64 rows times the transposed of the 64 rows of b, summed over features.
  template <int kFeatures>
  __device__ static void dot(const Rows& a, const S* b, Sums& sums) {
    begin_dot(a, b, sums);
    finish<0>(sums);
  }
  // Two of them. What `between` does with the first one runs beside the second one.
  template <int kFeatures, class F>
  __device__ static void dots(const Rows& a, const S* b, Sums& sums, const Rows& other_a,
                              const S* other_b, Sums& others, const F& between) {
    begin_dot(a, b, sums);
    begin_dot(other_a, other_b, others);
    finish<1>(sums);
    between();
    finish<0>(others);
  }

  // results += weights times the 64 rows of b.
  template <int kColumns>
  __device__ static void accumulate(const Sums& weights, const S* b, int, Sums& results) {
    const Rows a = rows(weights[0]);
    begin_accumulate(a, b, results);
    finish<0>(results);
  }
  // Two of them at a time.
  template <int kColumns>
  __device__ static void accumulate_both(const Sums& weights, const S* b, Sums& results,
                                         const Sums& other_weights, const S* other_b,
                                         Sums& other_results, int) {
    const Rows a = rows(weights[0]), other = rows(other_weights[0]);
    begin_accumulate(a, b, results);
    begin_accumulate(other, other_b, other_results);
    finish<0>(results);
    finish<0>(other_results);
  }

 private:
  __device__ static void begin_dot(const Rows& a, const S* b, Sums& sums) {
    // 16 features are 32 bytes further on.
    begin<false>(a, matrix_descriptor(b), 32 / 16, true, sums[0]);
  }
  __device__ static void begin_accumulate(const Rows& a, const S* b, Sums& sums) {
    // 16 rows are 2048 bytes further on.
    begin<true>(a, matrix_descriptor(b), 2048 / 16, false, sums[0]);
  }
  // Waits for all products but the last kOthers, which have other sums than these.
  template <int kOthers>
  __device__ static void finish(Sums& sums) {
    wait_for_wgmma<kOthers>(reinterpret_cast<float (&)[32]>(sums));
  }

  // Sums as a left operand.
  __device__ static Rows rows(const WarpSums (&sums)[kSide / 8]) {
    Rows a;
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      const Left left = TensorCoreProducts<S>::left(&sums[2 * k]);
#pragma unroll
      for (int i = 0; i < 4; ++i) a.of[k][i] = left.of[i];
    }
    return a;
  }

  // sums (64 x 64) = or += a b over four steps of 16. kTransposed: the rows of b are the depth.
  template <bool kTransposed>
  __device__ static void begin(const Rows& a, std::uint64_t b, int step, bool begins,
                               WarpSums (&sums)[kSide / 8]) {
    float (&sum)[32] = reinterpret_cast<float (&)[32]>(sums);
#pragma unroll
    for (float& one : sum) asm volatile("" : "+f"(one)::"memory");
    issue_wgmma<kSteps>([&](int k) {
      multiply_k16<S, kTransposed>(sum, a.of[k], b + static_cast<std::uint64_t>(k * step),
                                   !begins || k > 0);
    });
  }
};

}  // namespace traingraph::cuda
