// One GPU: its memory, the single stream that orders all work, and the copies to and from the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <traingraph/mutex.h>

#include "backends/cuda/kernel/context.h"
#include "backends/cuda/launch/capture.h"
#include "backends/cuda/memory/host_transfers.h"
#include "runtime/device_memory.h"
#include "runtime/diagnostics.h"

// Any thread may use these classes.
namespace traingraph::cuda {

// Selects a device for the calling thread and restores the previous one afterwards.
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
  // Properties and library handles, created at the first call. Kernels that use the handles run
  // under `launching`.
  const Context& context();

  // Zeroed memory. Freed blocks are kept for the next request of their size. The single stream
  // orders all earlier uses of a block before all later ones.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);
  void write(std::byte* to, const void* from, std::size_t bytes);
  void read(void* to, const std::byte* from, std::size_t bytes);
  // Reads few bytes asynchronously; null for more, or if too many reads are pending.
  std::unique_ptr<PendingRead> read_later(const std::byte* from, std::size_t bytes);
  // A device copy of data that a captured graph reads, owned by the pointer. Counted as part of the
  // context.
  std::shared_ptr<std::byte> keep(const std::vector<std::byte>& bytes);
  void copy(std::byte* to, const std::byte* from, std::size_t bytes);
  void gather_rows(std::byte* to, const RowTable& rows, const std::int64_t* places,
                   std::size_t count);
  void clear(std::byte* at, std::size_t bytes);
  void finish();

  // The stream as a number, and the order with another stream of this device: that stream waits for
  // this one, or this one for that. 0 and 1 are CUDA's default stream, 2 is that of the calling
  // thread.
  std::uintptr_t stream_number();
  void order_before(std::uintptr_t stream);
  void order_after(std::uintptr_t stream);

  // Whether these floats contain neither NaN nor infinity.
  bool all_finite(DataType type, const std::byte* values, std::size_t bytes);

  // Bytes of the context, the stream and the library handles, measured at their creation, and of
  // the data that captured graphs read.
  std::size_t context_bytes() const;

  DeviceCounters counters() const;
  void count_copy_out();
  // `wgmma`: how many of them use instructions of sm_90a.
  void count_launches(std::int64_t count, std::int64_t wgmma = 0);
  void count_captured(std::int64_t count, std::int64_t wgmma);
  // Launches a captured graph. This and the next two functions require `launching`.
  void launch(const CapturedGraph& run, const HostTransfers& transfers);
  void forget(const CapturedGraph& run);
  double repeat_last_run(int times);

  // For the transfers of a run: counts its upload, and reserves a slot for its download.
  void count_upload();
  AsyncReads::Reserved reserve_read(std::size_t bytes);

  // Held while kernels are enqueued or captured: library handles serve one thread at a time.
  Mutex launching;

 private:
  const CapturedGraph* last_run_ = nullptr;  // guarded by `launching`

  // A piece of pinned host memory, free again when its event completes.
  struct Piece {
    std::byte* bytes = nullptr;
    cudaEvent_t copied = nullptr;
  };
  // Small, so that one piece of a large array is filled while the previous one is copied.
  static constexpr std::size_t kPieceBytes = std::size_t{512} << 10;
  static constexpr int kPieces = 32;
  static constexpr std::size_t kOutBytes = std::size_t{2} << 20;

  // Allocates device resources at the first call. Raises DeviceError in a child of the process that
  // did: CUDA serves that one alone.
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

  Once started_;
  int started_in_ = 0;  // a value of detail::forks
  Mutex context_mutex_;
  std::unique_ptr<Context> context_;

  mutable Mutex mutex_;                       // guards the next three members
  std::multimap<std::size_t, void*> unused_;  // blocks by size
  DeviceCounters counters_;
  std::size_t context_bytes_ = 0;

  Mutex in_mutex_;  // guards the ring
  Piece ring_[kPieces];
  int next_piece_ = 0;
  AsyncReads async_reads_;
  Mutex out_mutex_;  // guards the buffer for results
  std::byte* out_ = nullptr;
  unsigned long long* scanned_ = nullptr;  // on the device; guarded as well

  // Makes later work of the second stream wait for the first stream.
  void order(cudaStream_t first, cudaStream_t second);

  Mutex order_mutex_;  // guards the event
  cudaEvent_t reached_ = nullptr;
};

}  // namespace traingraph::cuda
