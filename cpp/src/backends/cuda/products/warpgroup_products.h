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

  // 64 rows times the transposed of the 64 rows of b, summed over features.
  template <int kFeatures>
  __device__ static void dot(const Rows& a, const S* b, WarpSums (&sums)[1][kSide / 8]) {
    // 16 features are 32 bytes further on.
    multiply<false>(a, matrix_descriptor(b), 32 / 16, true, sums[0]);
  }

  // results += weights times the 64 rows of b.
  template <int kColumns>
  __device__ static void accumulate(const WarpSums (&weights)[1][kSide / 8], const S* b, int,
                                    WarpSums (&results)[1][kColumns / 8]) {
    Rows a;
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      const Left left = TensorCoreProducts<S>::left(&weights[0][2 * k]);
#pragma unroll
      for (int i = 0; i < 4; ++i) a.of[k][i] = left.of[i];
    }
    // 16 rows are 2048 bytes further on.
    multiply<true>(a, matrix_descriptor(b), 2048 / 16, false, results[0]);
  }

 private:
  // sums (64 x 64) = or += a b over four steps of 16. kTransposed: the rows of b are the depth.
  template <bool kTransposed>
  __device__ static void multiply(const Rows& a, std::uint64_t b, int step, bool begins,
                                  WarpSums (&sums)[kSide / 8]) {
    float (&sum)[32] = reinterpret_cast<float (&)[32]>(sums);
#pragma unroll
    for (float& one : sum) asm volatile("" : "+f"(one)::"memory");
    issue_wgmma<kSteps>([&](int k) {
      multiply_k16<S, kTransposed>(sum, a.of[k], b + static_cast<std::uint64_t>(k * step),
                                   !begins || k > 0);
    });
    wait_for_wgmma(sum);
  }
};

}  // namespace traingraph::cuda
