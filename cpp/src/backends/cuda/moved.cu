#include "backends/cuda/moved.h"

namespace traingraph::cuda {
namespace {

constexpr int kTile = 32, kTileRows = 8;

// One thread per element of the result.
template <class T>
__global__ void __launch_bounds__(kThreads)
    move_elements(const __grid_constant__ Move move, const T* from, T* to) {
  const std::int64_t element = thread_number();
  if (element < move.count) to[element] = from[move.source.offset(element)];
}

// A tile is read along the source's innermost axis and written along the result's.
template <class T>
__global__ void __launch_bounds__(kTile* kTileRows)
    move_tiles(const __grid_constant__ Move move, std::int64_t tiles_across,
               std::int64_t tiles_down, const T* from, T* to) {
  __shared__ T tile[kTile][kTile + 1];
  std::int64_t number = blockIdx.x;
  const std::int64_t across = number % tiles_across * kTile;
  number /= tiles_across;
  const std::int64_t down = number % tiles_down * kTile;
  number /= tiles_down;
  const T* const source = from + move.other_from.offset(number);
  T* const target = to + move.other_to.offset(number);
  const int column = static_cast<int>(threadIdx.x) % kTile;
  const int row = static_cast<int>(threadIdx.x) / kTile;
  for (int k = row; k < kTile; k += kTileRows) {
    if (across + k < move.across && down + column < move.down) {
      tile[k][column] = source[(across + k) * move.source_step + down + column];
    }
  }
  __syncthreads();
  for (int k = row; k < kTile; k += kTileRows) {
    if (down + k < move.down && across + column < move.across) {
      target[(down + k) * move.to_step + across + column] = tile[column][k];
    }
  }
}

}  // namespace

Move moved(const ir::Type& source, const std::vector<int>& axes) {
  Move move;
  move.element_bytes = element_bytes(source.data_type);
  move.count = source.elements();
  const Shape steps = ir::dense_strides(source.shape);
  for (int axis : axes) {
    const auto at = static_cast<std::size_t>(axis);
    move.source.add(source.shape[at], steps[at]);
  }
  // Joined axes of the result: extents, distances in the source and in the result.
  const int rank = move.source.rank;
  std::int64_t to_steps[Walk::kAxes] = {};
  std::int64_t step = 1;
  int inner = -1;  // which of them is the source's innermost
  for (int k = rank - 1; k >= 0; --k) {
    to_steps[k] = step;
    step *= move.source.extents[k].divisor;
    if (move.source.strides[k] == 1) inner = k;
  }
  move.tiles = rank > 1 && inner >= 0 && inner != rank - 1;
  if (!move.tiles) return move;
  move.across = move.source.extents[rank - 1].divisor;
  move.source_step = move.source.strides[rank - 1];
  move.down = move.source.extents[inner].divisor;
  move.to_step = to_steps[inner];
  for (int k = 0; k < rank - 1; ++k) {
    if (k == inner) continue;
    const std::int64_t extent = move.source.extents[k].divisor;
    // One walk per side over the same numbers: axes stay apart.
    Walk& a = move.other_from;
    Walk& b = move.other_to;
    a.extents[a.rank] = b.extents[b.rank] = Divider(extent);
    a.strides[a.rank++] = move.source.strides[k];
    b.strides[b.rank++] = to_steps[k];
    move.others *= extent;
  }
  // Narrow tiles would waste most of their threads.
  if (move.across < 4 || move.down < 4) move.tiles = false;
  return move;
}

void enqueue_move(const Move& move, const std::byte* from, std::byte* to, cudaStream_t stream) {
  if (move.count == 0) return;
  with_unit(move.element_bytes, [&](auto sample) {
    using T = decltype(sample);
    if constexpr (sizeof(T) <= 8) {
      const T* const source = reinterpret_cast<const T*>(from);
      T* const target = reinterpret_cast<T*>(to);
      if (!move.tiles) {
        move_elements<T><<<blocks_for(move.count), kThreads, 0, stream>>>(move, source, target);
        return;
      }
      const std::int64_t across = (move.across + kTile - 1) / kTile;
      const std::int64_t down = (move.down + kTile - 1) / kTile;
      const auto blocks = static_cast<unsigned>(across * down * move.others);
      move_tiles<T><<<blocks, kTile * kTileRows, 0, stream>>>(move, across, down, source, target);
    }
  });
  check_launch("transpose");
}

}  // namespace traingraph::cuda
