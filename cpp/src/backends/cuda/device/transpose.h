#pragma once

#include <vector>

#include "backends/cuda/device/device.h"
#include "ir/type.h"

// Transposes: a dense tensor with its axes in another order, for elements of any type. For .cu
// files only.
namespace traingraph::cuda {

// Calls f with a value of a type of so many bytes: 1, 2, 4, 8 or 16.
template <class F>
void with_unit(std::size_t bytes, F&& f) {
  if (bytes == 1) f(std::uint8_t{});
  if (bytes == 2) f(std::uint16_t{});
  if (bytes == 4) f(std::uint32_t{});
  if (bytes == 8) f(std::uint64_t{});
  if (bytes == 16) f(uint4{});
}

// `across` is the result's innermost axis. `down` is the source's innermost axis if that is another
// one; tiles of both are then transposed in shared memory.
struct TransposePlan {
  std::size_t element_bytes = 4;
  std::int64_t count = 0;
  Walk source;  // from the result's row-major number to the source's offset
  bool tiles = false;
  std::int64_t across = 1, down = 1;          // extents
  std::int64_t source_step = 1, to_step = 1;  // of `across` in the source, of `down` in the result
  Walk other_from, other_to;                  // all other axes
  std::int64_t others = 1;
};

// Axis k of the result is axis axes[k] of the source.
TransposePlan transpose_plan(const ir::Type& source, const std::vector<int>& axes);
void enqueue_transpose(const TransposePlan& plan, const std::byte* from, std::byte* to,
                       cudaStream_t stream);

}  // namespace traingraph::cuda
