// Loops of Winograd's F(4 × 4, 3 × 3): a tile of 4 × 4 results takes 36 products instead of 144,
// one for each number of its transform. The first index of every transform, w, is the one of these
// numbers; matrices of different w lie `apart` elements from each other.
#pragma once

#include <cstdint>

namespace traingraph::cpu {

inline constexpr std::int64_t kWinogradNumbers = 36, kWinogradSide = 4;

// One block of channels of all images, (height, width, lanes) each, in tiles that lie row by row.
struct WinogradImages {
  std::int64_t apart;  // elements from one image to the next
  std::int64_t height, width;
  std::int64_t tile_rows, tile_columns;  // of an image
  std::int64_t top, left;                // of the first tile; negative in padding
};

// All operands of one w. Tiles of a block of channels are (tiles, lanes), and blocks lie so many
// elements apart.
struct WinogradProduct {
  std::int64_t tiles, channels, columns;  // whole blocks of channels and columns
  const float* source;
  std::int64_t source_block;
};

// What reads and writes tensors of one type, behind `void`.
struct WinogradTransforms {
  // x → (w, tiles, lanes): 6 × 6 elements of each of the tiles [first, first + count).
  void (*source)(const WinogradImages& images, const void* x, std::int64_t first,
                 std::int64_t count, float* to, std::int64_t apart);
  // (w, tiles, lanes) → y, with a bias (lanes) unless null, then relu.
  void (*result)(const WinogradImages& images, const float* from, std::int64_t apart,
                 std::int64_t first, std::int64_t count, const float* bias, bool relu, void* y);
  // dy → (w, tiles, lanes): the transposed transform of `result`.
  void (*gradient)(const WinogradImages& images, const void* dy, std::int64_t first,
                   std::int64_t count, float* to, std::int64_t apart);
  // One block of weights (3, 3, channels, columns), each of so many lanes → (w, channels, columns)
  // with rows in a panel. `exchanged`: columns are its channels, and it is turned by 180 degrees.
  void (*weights)(const void* block, bool exchanged, float* to, std::int64_t row,
                  std::int64_t apart);
};

struct WinogradLoops {
  std::int64_t lanes;  // of a block of channels
  bool preferred;      // whether they are faster than direct convolution at this level
  std::int64_t tiles;  // of a range whose transforms stay in the second cache

  WinogradTransforms transforms[3];  // of float32, float16 and bfloat16
  // The transposed transform: overwrites the block, or is added to it.
  void (*weights_gradient)(const float* from, std::int64_t row, std::int64_t apart, bool adds,
                           float* block);

  std::int64_t panel_columns;
  // (tiles, channels) (channels, columns in panels) → (column blocks, tiles, lanes)
  void (*multiply)(const WinogradProduct& product, const float* weights, float* result,
                   std::int64_t result_block);
  // Σ over tiles of source × gradient (column blocks, tiles, lanes) → (channels, columns in
  // panels), overwritten or added to.
  void (*add_up)(const WinogradProduct& product, const float* gradient, std::int64_t gradient_block,
                 bool adds, float* weights);
};

}  // namespace traingraph::cpu
