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

}  // namespace

CUtensorMap tensor_map(const float* matrix, std::int64_t rows, std::int64_t columns,
                       int tile_rows) {
  static const auto encode = find_encode();
  const cuuint64_t extents[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t row_bytes[] = {static_cast<cuuint64_t>(columns) * 4};
  const cuuint32_t tile[] = {kTileFloats, static_cast<cuuint32_t>(tile_rows)}, steps[] = {1, 1};
  CUtensorMap map;
  const CUresult code =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, 2, const_cast<float*>(matrix), extents,
             row_bytes, tile, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS) {
    fail_call("cuTensorMapEncodeTiled", static_cast<int>(code), "a matrix it cannot describe");
  }
  return map;
}

}  // namespace traingraph::cuda
