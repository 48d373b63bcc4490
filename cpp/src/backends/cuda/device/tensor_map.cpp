#include "backends/cuda/device/tensor_map.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include "backends/cuda/kernel/check.h"

namespace traingraph::cuda {
namespace {

PFN_cuTensorMapEncodeTiled_v12000 find_encode() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult known{};
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault,
                                         &known),
        "cudaGetDriverEntryPointByVersion");
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found);
}

// The map of a tensor with these extents, the innermost first, and the distances of all others.
template <std::size_t kRank>
CUtensorMap encode(CUtensorMapDataType type, const void* of, const cuuint64_t (&extents)[kRank],
                   const cuuint64_t (&bytes_apart)[kRank - 1], const cuuint32_t (&tile)[kRank]) {
  static const auto call = find_encode();
  cuuint32_t steps[kRank];
  for (cuuint32_t& step : steps) step = 1;
  CUtensorMap map;
  const CUresult code = call(&map, type, kRank, const_cast<void*>(of), extents, bytes_apart, tile,
                             steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS) {
    fail_call("cuTensorMapEncodeTiled", static_cast<int>(code), "a tensor it cannot describe");
  }
  return map;
}

}  // namespace

CUtensorMap tensor_map(const float* matrix, std::int64_t rows, std::int64_t columns,
                       int tile_rows) {
  const auto width = static_cast<cuuint64_t>(columns);
  return encode<2>(CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, matrix, {width, static_cast<cuuint64_t>(rows)},
                   {width * 4}, {kTileFloats, static_cast<cuuint32_t>(tile_rows)});
}

CUtensorMap tensor_map(const HeadRows& x) {
  const auto of = [](std::int64_t count) { return static_cast<cuuint64_t>(count); };
  return encode<4>(
      x.is_bfloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, x.of,
      {of(x.features), of(x.heads), of(x.rows), of(x.samples)},
      {of(x.features * 2), of(x.step * 2), of(x.step * x.rows * 2)}, {kHeadTile, 1, kHeadTile, 1});
}

}  // namespace traingraph::cuda
