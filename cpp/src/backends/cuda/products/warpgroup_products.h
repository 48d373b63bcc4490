// Products of tiles of 64 rows and 64 features of 16 bits by a warpgroup, with WGMMA. For .cu files
// only.
#pragma once

#include "backends/cuda/device/wgmma.h"
#include "backends/cuda/products/warp_products.h"

namespace traingraph::cuda {

// Rows of 128 bytes whose pieces of 16 are permuted by the number of the row, as WGMMA reads them.
template <class S>
struct WarpgroupProducts {
  static constexpr bool kIsFull = false, kIsWarpgroup = true;
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

  // The rows of a warp's warpgroup.
  template <int kFeatures, int kGroups>
  __device__ static const S* rows(const S* tile, int warp) {
    static_assert(kGroups == 1);
    return tile + warp / 4 * kSide * kSide;
  }

  using Sums = WarpSums[1][kSide / 8];

  // 64 rows times the transposed of the 64 rows of b, summed over features.
  template <int kFeatures>
  __device__ static void dot(const S* a, const S* b, Sums& sums) {
    begin_dot(a, b, sums);
    finish<0>(sums);
  }
  // Two of them. What `between` does with the first one runs beside the second one.
  template <int kFeatures, class F>
  __device__ static void dots(const S* a, const S* b, Sums& sums, const S* other_a,
                              const S* other_b, Sums& others, const F& between) {
    begin_dot(a, b, sums);
    begin_dot(other_a, other_b, others);
    finish<1>(sums);
    between();
    finish<0>(others);
  }

  // Products that run beside what follows, until finish(): 64 rows times the transposed of the 64
  // rows of b, and results += weights times these rows.
  __device__ static void begin_dot(const S* a, const S* b, Sums& sums) {
    const std::uint64_t left = matrix_descriptor(a), right = matrix_descriptor(b);
    begin(sums, [=](float (&sum)[32], int k) {
      const auto at = static_cast<std::uint64_t>(k * (32 / 16));  // 16 features are 32 bytes
      multiply_k16<S, false>(sum, left + at, right + at, k > 0);
    });
  }
  __device__ static void begin_accumulate(const Sums& weights, const S* b, Sums& results) {
    Left left[kSteps];
#pragma unroll
    for (int k = 0; k < kSteps; ++k) left[k] = TensorCoreProducts<S>::left(&weights[0][2 * k]);
    const std::uint64_t right = matrix_descriptor(b);
    begin(results, [&](float (&sum)[32], int k) {
      const auto at = static_cast<std::uint64_t>(k * (2048 / 16));  // 16 rows are 2048 bytes
      multiply_k16<S, true>(sum, left[k].of, right + at, true);
    });
  }
  // Waits for all products but the last kOthers, which have other sums than these.
  template <int kOthers>
  __device__ static void finish(Sums& sums) {
    wait_for_wgmma<kOthers>(reinterpret_cast<float (&)[32]>(sums));
  }

 private:
  template <class F>
  __device__ static void begin(Sums& sums, const F& multiply) {
    float (&sum)[32] = reinterpret_cast<float (&)[32]>(sums);
#pragma unroll
    for (float& one : sum) asm volatile("" : "+f"(one)::"memory");
    issue_wgmma<kSteps>([&](int k) { multiply(sum, k); });
  }
};

}  // namespace traingraph::cuda
