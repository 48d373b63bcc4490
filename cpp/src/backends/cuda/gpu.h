#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/capture.h"
#include "backends/cuda/context.h"
#include "backends/cuda/late_reads.h"
#include "runtime/backend.h"

// One GPU: its memory, the one stream that everything is ordered on, and the copies to and from the
// host. Used by any thread.
namespace traingraph::cuda {

// Makes a device the calling thread's, and gives back the one before.
class Selected {
 public:
  explicit Selected(int device);
  ~Selected();
  Selected(const Selected&) = delete;
  Selected& operator=(const Selected&) = delete;

 private:
  int before_ = 0;
  int device_;
};

class Gpu {
 public:
  explicit Gpu(int index);
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int index() const { return index_; }
  const std::string& name() const { return name_; }
  const std::string& uuid() const { return uuid_; }
  cudaStream_t stream() const { return stream_; }
  // Library handles, made at the first call. Kernels that use them run under `launching`.
  const Context& context();

  // Zeroed. Blocks are kept for the next request of their size; everything that used one stands
  // before everything that will, on the one stream.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);
  void write(std::byte* to, const void* from, std::size_t bytes);
  void read(void* to, const std::byte* from, std::size_t bytes);
  // Of few bytes; null for more, or when too many are on their way.
  std::unique_ptr<PendingRead> read_later(const std::byte* from, std::size_t bytes);
  // A copy of what a recorded run reads, for as long as the pointer; counted as the context's.
  std::shared_ptr<std::byte> keep(const std::vector<std::byte>& bytes);
  void copy(std::byte* to, const std::byte* from, std::size_t bytes);
  void clear(std::byte* at, std::size_t bytes);
  void finish();

  // The stream as a number; another one of this device that from now on waits for it, or that it
  // waits for. 0 and 1 are CUDA's default stream, 2 is the one of the calling thread.
  std::uintptr_t stream_number();
  void order_before(std::uintptr_t stream);
  void order_after(std::uintptr_t stream);

  // Whether these floats are free of NaN and infinity.
  bool all_finite(DataType type, const std::byte* values, std::size_t bytes);

  // What the context, the stream and the library handles hold, measured when they were made, and
  // what recorded runs keep.
  std::size_t context_bytes() const;

  DeviceCounters counters() const;
  void count_copy_out();
  // Of them, kernels with warpgroups' instructions.
  void count_launches(std::int64_t count, std::int64_t warpgroups = 0);
  void count_captured(std::int64_t count, std::int64_t warpgroups);
  // Launches a captured run. Under `launching`, as the two that follow.
  void launch(const Captured& run, const Cargo& cargo);
  void forget(const Captured& run);
  double repeat_last_run(int times);

  // For a run's cargo: counts what it brings, and takes a place for what it fetches.
  void count_carried_in();
  LateReads::Reserved reserve_read(std::size_t bytes);

  // Held while kernels are enqueued or captured: library handles serve one thread at a time.
  std::mutex launching;

 private:
  const Captured* last_run_ = nullptr;  // guarded by `launching`

  // A piece of pinned host memory, free again when its event is done.
  struct Piece {
    std::byte* bytes = nullptr;
    cudaEvent_t copied = nullptr;
  };
  // Small, so that a large array's piece is filled while the one before is on its way.
  static constexpr std::size_t kPieceBytes = std::size_t{512} << 10;
  static constexpr int kPieces = 32;
  static constexpr std::size_t kOutBytes = std::size_t{2} << 20;

  // Makes what costs device memory, at the first call.
  void start();
  void make_stream();
  void write_through_ring(std::byte* to, const std::byte* from, std::size_t bytes);
  void* take_block(std::size_t bytes, std::size_t asked);
  void give_back(void* memory, std::size_t bytes, std::size_t asked);
  void free_unused_blocks();
  [[noreturn]] void out_of_memory(std::size_t bytes) const;

  const int index_;
  std::string name_;
  std::string uuid_;
  cudaStream_t stream_ = nullptr;

  std::once_flag started_;
  std::mutex context_mutex_;
  std::unique_ptr<Context> context_;

  mutable std::mutex mutex_;                  // guards what follows
  std::multimap<std::size_t, void*> unused_;  // blocks by size
  DeviceCounters counters_;
  std::size_t context_bytes_ = 0;

  std::mutex in_mutex_;  // guards the ring
  Piece ring_[kPieces];
  int next_piece_ = 0;
  LateReads late_reads_;
  std::mutex out_mutex_;  // guards the piece for results
  std::byte* out_ = nullptr;
  unsigned long long* scanned_ = nullptr;  // on the device; guarded as well

  // Lets what is enqueued on the second from now on wait for the first.
  void order(cudaStream_t first, cudaStream_t second);

  std::mutex order_mutex_;  // guards the event
  cudaEvent_t reached_ = nullptr;
};

}  // namespace traingraph::cuda
