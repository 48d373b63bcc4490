// Transposes of dense tensors: tiles in shared memory, or one thread per element.
#include "backends/cuda/device/transpose.h"

namespace traingraph::cuda {
namespace {

constexpr int kTile = 32, kTileRows = 8;

// One thread per element of the result.
template <class T>
__global__ void __launch_bounds__(kThreads)
    transpose_elements(const __grid_constant__ TransposePlan plan, const T* from, T* to) {
  const std::int64_t element = thread_number();
  if (element < plan.count) to[element] = from[plan.source.offset(element)];
}

// A tile is read along the source's innermost axis and written along the result's.
template <class T>
__global__ void __launch_bounds__(kTile* kTileRows)
    transpose_tiles(const __grid_constant__ TransposePlan plan, std::int64_t tiles_across,
                    std::int64_t tiles_down, const T* from, T* to) {
  __shared__ T tile[kTile][kTile + 1];
  std::int64_t number = blockIdx.x;
  const std::int64_t across = number % tiles_across * kTile;
  number /= tiles_across;
  const std::int64_t down = number % tiles_down * kTile;
  number /= tiles_down;
  const T* const source = from + plan.other_from.offset(number);
  T* const target = to + plan.other_to.offset(number);
  const int column = static_cast<int>(threadIdx.x) % kTile;
  const int row = static_cast<int>(threadIdx.x) / kTile;
  for (int k = row; k < kTile; k += kTileRows) {
    if (across + k < plan.across && down + column < plan.down) {
      tile[k][column] = source[(across + k) * plan.source_step + down + column];
    }
  }
  __syncthreads();
  for (int k = row; k < kTile; k += kTileRows) {
    if (down + k < plan.down && across + column < plan.across) {
      target[(down + k) * plan.to_step + across + column] = tile[column][k];
    }
  }
}

}  // namespace

TransposePlan transpose_plan(const ir::Type& source, const std::vector<int>& axes) {
  TransposePlan plan;
  plan.element_bytes = element_bytes(source.data_type);
  plan.count = source.elements();
  const Shape steps = ir::dense_strides(source.shape);
  for (int axis : axes) {
    const auto at = static_cast<std::size_t>(axis);
    plan.source.add(source.shape[at], steps[at]);
  }
  // Merged axes of the result: extents, strides in the source and in the result.
  const int rank = plan.source.rank;
  std::int64_t to_steps[Walk::kAxes] = {};
  std::int64_t step = 1;
  int inner = -1;  // the source's innermost axis among them
  for (int k = rank - 1; k >= 0; --k) {
    to_steps[k] = step;
    step *= plan.source.extents[k].divisor;
    if (plan.source.strides[k] == 1) inner = k;
  }
  plan.tiles = rank > 1 && inner >= 0 && inner != rank - 1;
  if (!plan.tiles) return plan;
  plan.across = plan.source.extents[rank - 1].divisor;
  plan.source_step = plan.source.strides[rank - 1];
  plan.down = plan.source.extents[inner].divisor;
  plan.to_step = to_steps[inner];
  for (int k = 0; k < rank - 1; ++k) {
    if (k == inner) continue;
    const std::int64_t extent = plan.source.extents[k].divisor;
    // Both walks enumerate the same numbers, so their axes must not be merged.
    Walk& a = plan.other_from;
    Walk& b = plan.other_to;
    a.extents[a.rank] = b.extents[b.rank] = Divider(extent);
    a.strides[a.rank++] = plan.source.strides[k];
    b.strides[b.rank++] = to_steps[k];
    plan.others *= extent;
  }
  // Narrow tiles would waste most of their threads.
  if (plan.across < 4 || plan.down < 4) plan.tiles = false;
  return plan;
}

void enqueue_transpose(const TransposePlan& plan, const std::byte* from, std::byte* to,
                       cudaStream_t stream) {
  if (plan.count == 0) return;
  with_unit(plan.element_bytes, [&](auto sample) {
    using T = decltype(sample);
    if constexpr (sizeof(T) <= 8) {
      const T* const source = reinterpret_cast<const T*>(from);
      T* const target = reinterpret_cast<T*>(to);
      if (!plan.tiles) {
        transpose_elements<T>
            <<<blocks_for(plan.count), kThreads, 0, stream>>>(plan, source, target);
        return;
      }
      const std::int64_t across = (plan.across + kTile - 1) / kTile;
      const std::int64_t down = (plan.down + kTile - 1) / kTile;
      const auto blocks = static_cast<unsigned>(across * down * plan.others);
      transpose_tiles<T>
          <<<blocks, kTile * kTileRows, 0, stream>>>(plan, across, down, source, target);
    }
  });
  check_launch("transpose");
}

}  // namespace traingraph::cuda
