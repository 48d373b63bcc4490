// GEMMs aᵀ b of single warps on transposed operands, in the layout of TMA copies. For .cu files
// only.
#pragma once

#include "backends/cuda/device/device.h"
#include "backends/cuda/device/tensor_cores.h"
#include "backends/cuda/device/wgmma.h"

namespace traingraph::cuda {

constexpr int kWarpTile = kTileFloats;  // rows and columns of a warp's product

// A warp's part of the tile. The order of its rows and columns in the products is free, and so is
// that of a chunk's eight rows. With g = lane / 4 and t = lane % 4, the four neighbouring rows and
// columns from 4 g on are rows g and g + 8 of two products of 16 rows, and column g of four
// products of eight columns. Threads of odd t read the later one of their two rows first, which
// avoids bank conflicts.
class WarpGemm {
 public:
  __device__ WarpGemm() : g_(lane() / 4), t_(lane() % 4) {}

  __device__ void add(const std::byte* a, const std::byte* b) {
    const int row = t_ % 2 == 0 ? t_ : t_ + 4;
    const int first = swizzled(row, g_ * 4), second = swizzled(row ^ 4, g_ * 4);
#pragma unroll
    for (int eight = 0; eight < kTileFloats / 8; ++eight) {
      const int from = eight * 8 * kTileFloats * 4;
      const Pack<float> a0 = read(a + from + first), a1 = read(a + from + second);
      const Pack<float> b0 = read(b + from + first), b1 = read(b + from + second);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          multiply_add(sum_[i][j], a0.element[2 * i], a0.element[2 * i + 1], a1.element[2 * i],
                       a1.element[2 * i + 1], b0.element[j], b1.element[j]);
        }
      }
    }
  }

  // `pitch` is the distance of rows in floats.
  __device__ void store_times(float alpha, float* to, int pitch) const {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        Pack<float> four;
#pragma unroll
        for (int j = 0; j < 4; ++j) four.element[j] = sum_[r / 2][j][r % 2 * 2 + c] * alpha;
        store(to + (4 * g_ + r) * pitch + 8 * t_ + 4 * c, four);
      }
    }
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static Pack<float> read(const std::byte* at) {
    return cuda::load<4>(reinterpret_cast<const float*>(at));
  }

  int g_, t_;
  float sum_[2][4][4] = {};
};

}  // namespace traingraph::cuda
