// Small transfers between host and device, up to 256 bytes each, in a run and beside it.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>

#include <traingraph/mutex.h>

#include "runtime/device_memory.h"

// A kernel moves the bytes. A copy engine would be scheduled between two runs, which costs several
// microseconds more.
namespace traingraph::cuda {

constexpr std::size_t kSmallCopyBytes = 256;

// Enqueues a write. `from`, in host memory, has been read when this returns.
void write_small(std::byte* to, const void* from, std::size_t bytes, cudaStream_t stream);
// Enqueues a read. `to` is pinned host memory.
void read_small(std::byte* to, const std::byte* from, std::size_t bytes, cudaStream_t stream);

// Sets the arguments of a captured write or read for the next launches of its CUDA graph. With 0
// bytes the node does nothing.
void set_write_node(cudaGraphExec_t run, cudaGraphNode_t node, std::byte* to, const void* from,
                    std::size_t bytes);
void set_read_node(cudaGraphExec_t run, cudaGraphNode_t node, std::byte* to, const std::byte* from,
                   std::size_t bytes);

// Reads that complete after the call that enqueues them. Each has a slot of pinned memory.
class AsyncReads {
 public:
  struct Slot {
    std::byte* bytes = nullptr;
    cudaEvent_t arrived = nullptr;
    std::atomic<bool> taken{false};
  };
  // A read, and the slot that it takes its bytes from once the slot's event has completed.
  struct Reserved {
    std::unique_ptr<PendingRead> read;
    Slot* slot = nullptr;
  };

  // null for more than kSmallCopyBytes, or when all slots are taken.
  std::unique_ptr<PendingRead> begin(const std::byte* from, std::size_t bytes, cudaStream_t stream);
  // The same without the copy and its event, which the caller enqueues.
  Reserved reserve(std::size_t bytes);
  static constexpr std::size_t kSlots = 16;

 private:
  void make_slots();

  Once made_;
  std::array<Slot, kSlots> slots_;
};

// The upload and the download of one run. In a captured run they are nodes of the CUDA graph. In
// any other run they are enqueued before and after it.
struct HostTransfers {
  struct Upload {
    std::byte* to = nullptr;
    std::array<std::byte, kSmallCopyBytes> bytes{};
    std::size_t count = 0;
  };
  struct Download {
    AsyncReads::Slot* slot = nullptr;
    const std::byte* from = nullptr;
    std::size_t count = 0;
  };
  std::optional<Upload> upload;
  std::optional<Download> download;

  void enqueue_upload(cudaStream_t stream) const {
    if (upload) write_small(upload->to, upload->bytes.data(), upload->count, stream);
  }
  void enqueue_download(cudaStream_t stream) const {
    if (download) read_small(download->slot->bytes, download->from, download->count, stream);
  }
};

}  // namespace traingraph::cuda
