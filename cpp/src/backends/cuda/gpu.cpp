#include "backends/cuda/gpu.h"

#include <algorithm>
#include <cstring>

#include <traingraph/errors.h>

#include "backends/cuda/check.h"
#include "backends/cuda/small_program.h"
#include "backends/cuda/stopwatch.h"

namespace traingraph::cuda {
namespace {

// Blocks come in whole steps of this size, so that one fits the next request more often.
std::size_t rounded(std::size_t bytes) {
  const std::size_t step = bytes < (std::size_t{1} << 20) ? 512 : std::size_t{2} << 20;
  return (bytes + step - 1) / step * step;
}

}  // namespace

Selected::Selected(int device) : device_(device) {
  check(cudaGetDevice(&before_), "cudaGetDevice");
  if (before_ != device_) check(cudaSetDevice(device_), "cudaSetDevice");
}

Selected::~Selected() {
  if (before_ != device_) static_cast<void>(cudaSetDevice(before_));
}

Gpu::Gpu(int index) : index_(index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  name_ = properties.name;
}

// What costs device memory is made when the device is first used, not when it is listed.
void Gpu::start() {
  std::call_once(started_, [this] {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    void* pinned = nullptr;
    check(cudaHostAlloc(&pinned, kPieceBytes * (kPieces + 1), cudaHostAllocDefault),
          "cudaHostAlloc");
    auto* bytes = static_cast<std::byte*>(pinned);
    for (Piece& piece : ring_) {
      piece.bytes = bytes;
      bytes += kPieceBytes;
      check(cudaEventCreateWithFlags(&piece.copied, cudaEventDisableTiming),
            "cudaEventCreateWithFlags");
    }
    out_ = bytes;
  });
}

const Context& Gpu::context() {
  const std::lock_guard lock(context_mutex_);
  if (context_ != nullptr) return *context_;
  const Selected selected(index_);
  start();
  auto made = std::make_unique<Context>();
  made->device = index_;
  check(cudaDeviceGetAttribute(&made->multiprocessors, cudaDevAttrMultiProcessorCount, index_),
        "cudaDeviceGetAttribute");
  made->cluster_blocks = most_cluster_blocks(index_);
  const cublasStatus_t blas = cublasLtCreate(&made->blas);
  if (blas != CUBLAS_STATUS_SUCCESS) {
    fail_call("cublasLtCreate", static_cast<int>(blas), cublasLtGetStatusString(blas));
  }
  const cudnnStatus_t dnn = cudnnCreate(&made->dnn);
  if (dnn != CUDNN_STATUS_SUCCESS) {
    fail_call("cudnnCreate", static_cast<int>(dnn), cudnnGetErrorString(dnn));
  }
  context_ = std::move(made);
  return *context_;
}

std::shared_ptr<std::byte> Gpu::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const Selected selected(index_);
  start();
  const std::size_t size = rounded(bytes);
  void* memory = take_block(size, bytes);
  const std::shared_ptr<std::byte> block(
      static_cast<std::byte*>(memory),
      [this, size, bytes](std::byte* p) { give_back(p, size, bytes); });
  check(cudaMemsetAsync(memory, 0, size, stream_), "cudaMemsetAsync");
  return block;
}

void* Gpu::take_block(std::size_t bytes, std::size_t asked) {
  const std::lock_guard lock(mutex_);
  if (const auto found = unused_.find(bytes); found != unused_.end()) {
    void* memory = found->second;
    unused_.erase(found);
    counters_.allocated_bytes += static_cast<std::int64_t>(asked);
    return memory;
  }
  void* memory = nullptr;
  cudaError_t code = cudaMalloc(&memory, bytes);
  if (code == cudaErrorMemoryAllocation) {
    free_unused_blocks();
    code = cudaMalloc(&memory, bytes);
  }
  if (code == cudaErrorMemoryAllocation) out_of_memory(bytes);
  check(code, "cudaMalloc");
  ++counters_.allocations;
  counters_.allocated_bytes += static_cast<std::int64_t>(asked);
  return memory;
}

void Gpu::give_back(void* memory, std::size_t bytes, std::size_t asked) {
  const std::lock_guard lock(mutex_);
  counters_.allocated_bytes -= static_cast<std::int64_t>(asked);
  unused_.emplace(bytes, memory);
}

// cudaFree waits for the work that uses a block.
void Gpu::free_unused_blocks() {
  static_cast<void>(cudaGetLastError());
  for (const auto& [bytes, memory] : unused_) check(cudaFree(memory), "cudaFree");
  unused_.clear();
}

void Gpu::out_of_memory(std::size_t bytes) const {
  static_cast<void>(cudaGetLastError());
  std::size_t available = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
  throw OutOfMemory(
      "[allocate] expected " + std::to_string(bytes) + " bytes on GPU " + std::to_string(index_) +
      " but " + std::to_string(available) + " of " + std::to_string(total) + " are available; " +
      std::to_string(counters_.allocated_bytes) + " bytes are held by graphs and parameters");
}

void Gpu::write(std::byte* to, const void* from, std::size_t bytes) {
  const Selected selected(index_);
  const auto* source = static_cast<const std::byte*>(from);
  const std::lock_guard lock(in_mutex_);
  for (std::size_t done = 0; done < bytes; done += kPieceBytes) {
    const std::size_t length = std::min(kPieceBytes, bytes - done);
    Piece& piece = ring_[next_piece_];
    next_piece_ = (next_piece_ + 1) % kPieces;
    check(cudaEventSynchronize(piece.copied), "cudaEventSynchronize");
    std::memcpy(piece.bytes, source + done, length);
    check(cudaMemcpyAsync(to + done, piece.bytes, length, cudaMemcpyHostToDevice, stream_),
          "cudaMemcpyAsync");
    check(cudaEventRecord(piece.copied, stream_), "cudaEventRecord");
  }
  const std::lock_guard counting(mutex_);
  ++counters_.copies_in;
}

void Gpu::read(void* to, const std::byte* from, std::size_t bytes) {
  const Selected selected(index_);
  const bool small = bytes <= kPieceBytes;
  std::unique_lock lock(out_mutex_, std::defer_lock);
  if (small) lock.lock();
  void* target = small ? out_ : to;
  check(cudaMemcpyAsync(target, from, bytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  if (small) std::memcpy(to, out_, bytes);
  const std::lock_guard counting(mutex_);
  ++counters_.copies_out;
}

void Gpu::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  const Selected selected(index_);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
  const std::lock_guard counting(mutex_);
  ++counters_.copies_within;
}

void Gpu::clear(std::byte* at, std::size_t bytes) {
  const Selected selected(index_);
  check(cudaMemsetAsync(at, 0, bytes, stream_), "cudaMemsetAsync");
}

void Gpu::finish() {
  const Selected selected(index_);
  start();
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

DeviceCounters Gpu::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void Gpu::count_captured(std::int64_t count) {
  const std::lock_guard lock(mutex_);
  counters_.captured += count;
}

void Gpu::launch(cudaGraphExec_t run) {
  check(cudaGraphLaunch(run, stream_), "cudaGraphLaunch");
  last_run_ = run;
  count_launches(1);
}

void Gpu::forget(cudaGraphExec_t run) {
  if (last_run_ == run) last_run_ = nullptr;
}

double Gpu::repeat_last_run(int times) {
  if (last_run_ == nullptr || times < 1) return 0;
  Stopwatch watch;
  watch.start(stream_);
  for (int k = 0; k < times; ++k) check(cudaGraphLaunch(last_run_, stream_), "cudaGraphLaunch");
  watch.stop(stream_);
  return watch.seconds() / times;
}

void Gpu::count_launches(std::int64_t count) {
  const std::lock_guard lock(mutex_);
  counters_.launches += count;
}

}  // namespace traingraph::cuda
