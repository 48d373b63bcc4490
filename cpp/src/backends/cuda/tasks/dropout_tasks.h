#pragma once

#include "backends/cuda/device/storage.h"
#include "backends/cuda/tasks/tasks.h"
#include "runtime/numbers/philox.h"

// Dropout as tasks. For .cu files only.
namespace traingraph::cuda {

// x, step, first row → y: 0 for dropped elements, otherwise x / (1 - rate). The mask counts
// elements of the whole batch. A thread takes the four elements that share a block of Philox.
template <class S>
struct DropoutTasks {
  using T = Compute<S>;
  using Scratch = NoScratch;
  std::int64_t count, row;
  std::uint64_t seed;
  std::uint32_t threshold;
  T scale;
  const S* x;
  const std::int64_t *step, *first_row;  // first_row may be null
  S* y;

  __device__ S kept(S value, std::uint32_t word) const {
    return narrow<S>(word < threshold ? T(0) : widen(value) * scale);
  }

  __device__ void run(int task, Scratch&) const {
    const std::int64_t first = first_row == nullptr ? 0 : *first_row * row;
    const std::int64_t block = first / 4 + std::int64_t{task} * kThreads + threadIdx.x;
    const std::int64_t start = block * 4 - first;  // below 0 in the first block of an odd row
    if (start >= count) return;
    const philox::Block words = philox::block_of(seed, static_cast<std::uint64_t>(*step),
                                                 static_cast<std::uint64_t>(block));
    if (start >= 0 && start + 4 <= count && start % 4 == 0) {
      auto four = load<4>(x + start);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        four.element[k] = kept(four.element[k], words.word[k]);
      }
      store(y + start, four);
      return;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const std::int64_t at = start + k;
      if (at < 0 || at >= count) continue;
      y[at] = kept(x[at], words.word[k]);
    }
  }
};

}  // namespace traingraph::cuda
