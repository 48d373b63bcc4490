// Asynchronous prefetch of rows of several tensors into shared memory. For .cu files only.
#pragma once

#include "backends/cuda/normalization/batch_norm_rows.h"

namespace traingraph::cuda {

// Iterates over a thread's rows from the last to the first. Each row is requested from kSources
// tensors, and from a ReLU mask if kReluMask is set, some rows before its use. Packs of 16 bytes
// are buffered in shared memory. A thread reads only data that it requested itself, so no barrier
// is needed. Other packs are read when they are used.
template <class S, int kPack, int kSources, bool kReluMask>
class RowPrefetch {
 public:
  static constexpr bool kWaits = sizeof(Pack<S, kPack>) == 16;
  static constexpr int kStages = 3;
  static constexpr std::size_t kPacks = std::size_t{16} * kStages * kSources * kThreads;
  static constexpr std::size_t kWords = kReluMask ? sizeof(std::uint32_t) * kStages * kThreads : 0;
  static constexpr std::size_t kBytes = kWaits ? kPacks + kWords : 0;
  static_assert(kWaits || !kReluMask);

  // Requests the first rows of the first kSources sources.
  __device__ RowPrefetch(const Rows& plan, const Place<kPack>& place, const S* const* sources,
                         const std::uint8_t* relu_mask)
      : plan_(plan),
        place_(place),
        relu_mask_(relu_mask),
        tiles_((plan.rows + place.step - 1) / place.step) {
#pragma unroll
    for (int k = 0; k < kSources; ++k) sources_[k] = sources[k] + place.channel;
    if constexpr (kWaits) {
      for (int stage = 0; stage < kStages - 1; ++stage) request(stage);
    }
  }

  // Calls f(offset of the thread's pack, a pack of each source, the word with its mask) for each
  // row.
  template <class F>
  __device__ void for_each(F&& f) {
    int stage = 0;
    for (std::int64_t t = blockIdx.y; t < tiles_; t += gridDim.y) {
      const std::int64_t row = row_of(t), at = row * plan_.channels;
      Pack<S, kPack> packs[kSources];
      std::uint32_t relu_mask = 0;
      if constexpr (kWaits) {
        asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
#pragma unroll
        for (int k = 0; k < kSources; ++k) packs[k] = *slot(stage, k);
        if constexpr (kReluMask) relu_mask = *word(stage);
        request(stage == 0 ? kStages - 1 : stage - 1);
        stage = stage + 1 == kStages ? 0 : stage + 1;
      } else if (there(t, row)) {
#pragma unroll
        for (int k = 0; k < kSources; ++k) packs[k] = load<kPack>(sources_[k] + at);
      }
      if (there(t, row)) f(at + place_.channel, packs, relu_mask);
    }
  }

 private:
  __device__ std::int64_t row_of(std::int64_t tile) const {
    return (tiles_ - 1 - tile) * place_.step + place_.row;
  }
  __device__ bool there(std::int64_t tile, std::int64_t row) const {
    return place_.there && tile < tiles_ && row < plan_.rows;
  }
  __device__ static unsigned char* shared() {
    extern __shared__ __align__(16) unsigned char prefetched[];
    return prefetched;
  }
  __device__ static Pack<S, kPack>* slot(int stage, int source) {
    return reinterpret_cast<Pack<S, kPack>*>(shared()) + (stage * kSources + source) * kThreads +
           threadIdx.x;
  }
  __device__ static std::uint32_t* word(int stage) {
    return reinterpret_cast<std::uint32_t*>(shared() + kPacks) + stage * kThreads + threadIdx.x;
  }
  // Requests the next row into a stage.
  __device__ void request(int stage) {
    const std::int64_t tile = blockIdx.y + requested_ * static_cast<std::int64_t>(gridDim.y);
    const std::int64_t row = row_of(tile);
    ++requested_;
    if (there(tile, row)) {
#pragma unroll
      for (int k = 0; k < kSources; ++k) {
        const auto to = static_cast<unsigned>(__cvta_generic_to_shared(slot(stage, k)));
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to),
                     "l"(sources_[k] + row * plan_.channels)
                     : "memory");
      }
      if constexpr (kReluMask) {
        const std::int64_t at = row * plan_.channels + place_.channel;
        const auto to = static_cast<unsigned>(__cvta_generic_to_shared(word(stage)));
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to),
                     "l"(relu_mask_ + at / 32 * 4)
                     : "memory");
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  const Rows& plan_;
  const Place<kPack>& place_;
  const S* sources_[kSources];
  const std::uint8_t* relu_mask_;
  std::int64_t tiles_;
  int requested_ = 0;
};

}  // namespace traingraph::cuda
