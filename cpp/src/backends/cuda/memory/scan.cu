// The search for NaN and infinity in device memory.
#include "backends/cuda/memory/scan.h"

#include <algorithm>

#include <traingraph/errors.h>

#include "backends/cuda/kernel/check.h"

namespace traingraph::cuda {
namespace {

constexpr int kBlockThreads = 256;
// Enough blocks to fill any device. Each thread takes several values.
constexpr std::int64_t kMostBlocks = 2048;

unsigned grid_for(std::int64_t count) {
  const std::int64_t blocks = (count + kBlockThreads - 1) / kBlockThreads;
  return static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, kMostBlocks));
}

// Calls f(k) for this thread's share of [0, count).
template <class F>
__device__ void for_each_of_mine(std::int64_t count, const F& f) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < count; k += step) {
    f(k);
  }
}

// NaN and infinity have all exponent bits set. All writers write the same value.
template <class Word>
__global__ void not_finite(const Word* words, std::int64_t count, Word exponent,
                           unsigned long long* found) {
  bool any = false;
  for_each_of_mine(count, [&](std::int64_t k) { any = any || (words[k] & exponent) == exponent; });
  if (__syncthreads_or(any) && threadIdx.x == 0) *found = 1;
}

template <class Word>
void launch_not_finite(const std::byte* values, std::size_t bytes, Word exponent,
                       unsigned long long* found, cudaStream_t stream) {
  const auto count = static_cast<std::int64_t>(bytes / sizeof(Word));
  not_finite<<<grid_for(count), kBlockThreads, 0, stream>>>(reinterpret_cast<const Word*>(values),
                                                            count, exponent, found);
  check_launch("not_finite");
}

}  // namespace

void scan_not_finite(DataType type, const std::byte* values, std::size_t bytes,
                     unsigned long long* found, cudaStream_t stream) {
  switch (type) {
    case DataType::kFloat32:
      return launch_not_finite<std::uint32_t>(values, bytes, 0x7f800000u, found, stream);
    case DataType::kFloat64:
      return launch_not_finite<std::uint64_t>(values, bytes, 0x7ff0000000000000ull, found, stream);
    case DataType::kFloat16:
      return launch_not_finite<std::uint16_t>(values, bytes, 0x7c00, found, stream);
    case DataType::kBFloat16:
      return launch_not_finite<std::uint16_t>(values, bytes, 0x7f80, found, stream);
    default:
      throw InternalError(std::string("[scan] expected floats but got ") + name(type));
  }
}

}  // namespace traingraph::cuda
