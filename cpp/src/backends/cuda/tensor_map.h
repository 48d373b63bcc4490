#pragma once

#include <cuda.h>

#include <cstdint>

namespace traingraph::cuda {

constexpr int kTileFloats = 32;  // of a row that a copy takes

// A matrix with rows of `columns` floats, a multiple of four, for copies of so many rows; what lies
// outside is read as 0, and all is rounded to TF32.
CUtensorMap tensor_map(const float* matrix, std::int64_t rows, std::int64_t columns, int tile_rows);

}  // namespace traingraph::cuda
