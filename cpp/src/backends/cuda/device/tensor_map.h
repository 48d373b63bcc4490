#pragma once

#include <cuda.h>

#include <cstdint>

namespace traingraph::cuda {

constexpr int kTileFloats = 32;  // of a row in one copy

// The tensor map of a matrix for TMA copies of `tile_rows` rows. Its rows have `columns` floats, a
// multiple of four. Elements outside are read as 0, and all are rounded to TF32.
CUtensorMap tensor_map(const float* matrix, std::int64_t rows, std::int64_t columns, int tile_rows);

constexpr int kHeadTile = 64;  // rows and features in one copy

// Features of heads, (samples, rows, heads, features) of 16 bits. `step` is the distance of rows.
// Features and rows begin at multiples of 16 bytes.
struct HeadRows {
  const void* of;
  std::int64_t samples, rows, heads, features, step;
  bool is_bfloat16;
};
// Its tensor map for TMA copies of kHeadTile rows of one head. Elements outside are read as 0.
CUtensorMap tensor_map(const HeadRows& x);

}  // namespace traingraph::cuda
