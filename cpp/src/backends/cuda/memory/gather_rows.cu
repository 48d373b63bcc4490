#include "backends/cuda/memory/gather_rows.h"

#include <algorithm>

#include "backends/cuda/kernel/check.h"

namespace traingraph::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kMostBlocks = 1024;

// A thread copies one unit of a row. Both tables and their rows begin at multiples of a unit.
template <class Unit>
__global__ void __launch_bounds__(kThreads)
    gather_units(Unit* to, const Unit* from, const std::int64_t* places, std::size_t count,
                 unsigned units) {
  const std::size_t all = count * units;
  for (std::size_t i = std::size_t{blockIdx.x} * kThreads + threadIdx.x; i < all;
       i += std::size_t{gridDim.x} * kThreads) {
    const std::size_t row = i / units;
    to[i] = from[static_cast<std::size_t>(places[row]) * units + (i - row * units)];
  }
}

template <class Unit>
bool gathers(std::byte* to, const RowTable& rows, const std::int64_t* places, std::size_t count,
             cudaStream_t stream) {
  const auto addresses =
      reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(rows.first);
  const std::size_t units = rows.row_bytes / sizeof(Unit);
  if ((addresses | rows.row_bytes) % sizeof(Unit) != 0 || units != static_cast<unsigned>(units)) {
    return false;
  }
  const std::size_t blocks = (count * units + kThreads - 1) / kThreads;
  gather_units<<<static_cast<unsigned>(std::min(blocks, kMostBlocks)), kThreads, 0, stream>>>(
      reinterpret_cast<Unit*>(to), reinterpret_cast<const Unit*>(rows.first), places, count,
      static_cast<unsigned>(units));
  check_launch("gather of rows");
  return true;
}

}  // namespace

void enqueue_gather(std::byte* to, const RowTable& rows, const std::int64_t* places,
                    std::size_t count, cudaStream_t stream) {
  if (count == 0 || rows.row_bytes == 0) return;
  if (gathers<uint4>(to, rows, places, count, stream)) return;
  if (gathers<std::uint32_t>(to, rows, places, count, stream)) return;
  gathers<std::uint8_t>(to, rows, places, count, stream);
}

}  // namespace traingraph::cuda
