// Small transfers between host and device: kernels that copy, and reads that complete later.
#include "backends/cuda/memory/host_transfers.h"

#include <algorithm>
#include <cstring>

#include "backends/cuda/device/dependent_launch.h"
#include "backends/cuda/distributed/nccl_ranks.h"
#include "backends/cuda/kernel/check.h"

namespace traingraph::cuda {
namespace {

static_assert(kSmallCopyBytes >= kMostLateBytes);

// A kernel argument, so that the launch itself transports the bytes.
struct SmallCopy {
  std::byte bytes[kSmallCopyBytes];
};

__global__ void __launch_bounds__(kSmallCopyBytes)
    put_bytes(std::byte* to, const __grid_constant__ SmallCopy copy, unsigned count) {
  launch_dependents();
  if (threadIdx.x < count) to[threadIdx.x] = copy.bytes[threadIdx.x];
}

__global__ void __launch_bounds__(kSmallCopyBytes)
    copy_bytes(std::byte* to, const std::byte* from, unsigned count) {
  if (threadIdx.x < count) to[threadIdx.x] = from[threadIdx.x];
}

unsigned threads_for(std::size_t bytes) {
  return static_cast<unsigned>(std::max<std::size_t>(1, (bytes + 31) / 32) * 32);
}

// arguments: pointers to the kernel's arguments, in order
void set_node(cudaGraphExec_t run, cudaGraphNode_t node, void* kernel, std::size_t bytes,
              void** arguments) {
  cudaKernelNodeParams set{};
  set.func = kernel;
  set.gridDim = 1;
  set.blockDim = threads_for(bytes);
  set.kernelParams = arguments;
  check(cudaGraphExecKernelNodeSetParams(run, node, &set), "cudaGraphExecKernelNodeSetParams");
}

class AsyncRead final : public PendingRead {
 public:
  AsyncRead(AsyncReads::Slot& slot, std::size_t bytes) : slot_(slot), bytes_(bytes) {}
  // The copy must complete before the slot serves another read.
  ~AsyncRead() override {
    if (made_in_ != detail::forks) return;
    static_cast<void>(cudaEventSynchronize(slot_.arrived));
    slot_.taken = false;
  }
  AsyncRead(const AsyncRead&) = delete;
  AsyncRead& operator=(const AsyncRead&) = delete;

  void take(void* to) override {
    check(cudaEventSynchronize(slot_.arrived), "cudaEventSynchronize");
    check_ranks();
    std::memcpy(to, slot_.bytes, bytes_);
  }

 private:
  AsyncReads::Slot& slot_;
  std::size_t bytes_;
  const int made_in_ = detail::forks;  // CUDA serves the process that has started it
};

}  // namespace

void write_small(std::byte* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  SmallCopy copy;
  std::memcpy(copy.bytes, from, bytes);
  put_bytes<<<1, threads_for(bytes), 0, stream>>>(to, copy, static_cast<unsigned>(bytes));
  check_launch("small write");
}

void read_small(std::byte* to, const std::byte* from, std::size_t bytes, cudaStream_t stream) {
  copy_bytes<<<1, threads_for(bytes), 0, stream>>>(to, from, static_cast<unsigned>(bytes));
  check_launch("small read");
}

void set_write_node(cudaGraphExec_t run, cudaGraphNode_t node, std::byte* to, const void* from,
                    std::size_t bytes) {
  SmallCopy copy;
  if (bytes > 0) std::memcpy(copy.bytes, from, bytes);
  auto count = static_cast<unsigned>(bytes);
  void* arguments[] = {&to, &copy, &count};
  set_node(run, node, reinterpret_cast<void*>(put_bytes), bytes, arguments);
}

void set_read_node(cudaGraphExec_t run, cudaGraphNode_t node, std::byte* to, const std::byte* from,
                   std::size_t bytes) {
  auto count = static_cast<unsigned>(bytes);
  void* arguments[] = {&to, &from, &count};
  set_node(run, node, reinterpret_cast<void*>(copy_bytes), bytes, arguments);
}

void AsyncReads::make_slots() {
  void* pinned = nullptr;
  check(cudaHostAlloc(&pinned, kSmallCopyBytes * kSlots, cudaHostAllocDefault), "cudaHostAlloc");
  auto* bytes = static_cast<std::byte*>(pinned);
  for (Slot& slot : slots_) {
    check(cudaEventCreateWithFlags(&slot.arrived, cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
    slot.bytes = bytes;
    bytes += kSmallCopyBytes;
  }
}

std::unique_ptr<PendingRead> AsyncReads::begin(const std::byte* from, std::size_t bytes,
                                               cudaStream_t stream) {
  Reserved reserved = reserve(bytes);
  if (reserved.read == nullptr) return nullptr;
  read_small(reserved.slot->bytes, from, bytes, stream);
  check(cudaEventRecord(reserved.slot->arrived, stream), "cudaEventRecord");
  return std::move(reserved.read);
}

AsyncReads::Reserved AsyncReads::reserve(std::size_t bytes) {
  if (bytes == 0 || bytes > kSmallCopyBytes) return {};
  made_.call([this] { make_slots(); });
  for (Slot& slot : slots_) {
    if (!slot.taken.exchange(true)) return {std::make_unique<AsyncRead>(slot, bytes), &slot};
  }
  return {};
}

}  // namespace traingraph::cuda
