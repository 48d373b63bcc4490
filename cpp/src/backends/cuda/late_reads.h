#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>

#include "runtime/backend.h"

namespace traingraph::cuda {

// Small reads that nobody waits for yet, each with a place of its own in pinned memory.
class LateReads {
 public:
  struct Place {
    std::byte* bytes = nullptr;
    cudaEvent_t there = nullptr;
    std::atomic<bool> taken{false};
  };
  // The read, and the place that it is taken from when the place's event has come.
  struct Reserved {
    std::unique_ptr<PendingRead> read;
    Place* place = nullptr;
  };

  // null for more than kFewBytes, or when all places are taken.
  std::unique_ptr<PendingRead> begin(const std::byte* from, std::size_t bytes, cudaStream_t stream);
  // The same without the copy and its event, which are the caller's to enqueue.
  Reserved reserve(std::size_t bytes);
  static constexpr std::size_t kPlaces = 16;

 private:
  void make_places();

  std::once_flag made_;
  std::array<Place, kPlaces> places_;
};

}  // namespace traingraph::cuda
