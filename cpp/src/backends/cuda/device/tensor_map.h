#pragma once

#include <cuda.h>

#include <cstdint>

namespace traingraph::cuda {

constexpr int kTileFloats = 32;  // of a row in one copy

// The tensor map of a matrix for TMA copies of `tile_rows` rows. Its rows have `columns` floats, a
// multiple of four. Elements outside are read as 0, and all are rounded to TF32.
CUtensorMap tensor_map(const float* matrix, std::int64_t rows, std::int64_t columns, int tile_rows);

}  // namespace traingraph::cuda
