// One GPU: its stream, its memory blocks, and the copies between host and device.
#include "backends/cuda/launch/gpu.h"

#include <algorithm>
#include <cstring>

#include <traingraph/errors.h>

#include "backends/cuda/distributed/nccl_ranks.h"
#include "backends/cuda/kernel/check_library.h"
#include "backends/cuda/launch/megakernel.h"
#include "backends/cuda/memory/driver_memory.h"
#include "backends/cuda/memory/gather_rows.h"
#include "backends/cuda/memory/host_transfers.h"
#include "backends/cuda/memory/scan.h"
#include "backends/cuda/memory/stopwatch.h"

namespace traingraph::cuda {
namespace {

// Block sizes are rounded up, so that a free block fits later requests more often.
std::size_t rounded(std::size_t bytes) {
  const std::size_t step = bytes < (std::size_t{1} << 20) ? 512 : std::size_t{2} << 20;
  return (bytes + step - 1) / step * step;
}

std::string text_of(const cudaUUID_t& uuid) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "GPU-";
  for (int k = 0; k < 16; ++k) {
    if (k == 4 || k == 6 || k == 8 || k == 10) text += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[k]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// Free bytes of the current device.
std::size_t available_bytes() {
  std::size_t available = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
  return available;
}

#ifdef TRAINGRAPH_SM_90A
constexpr bool kBuiltForWgmma = true;
#else
constexpr bool kBuiltForWgmma = false;
#endif

int attribute_of(int device, cudaDeviceAttr attribute) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  return value;
}

std::size_t growth(std::size_t before, std::size_t after) {
  return after > before ? after - before : 0;
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
  uuid_ = text_of(properties.uuid);
}

// Runs when the device is first used, not when it is listed. Selecting it creates its context.
void Gpu::start() {
  started_.call([this] {
    const std::size_t before = used_device_memory(uuid_);
    {
      const Selected selected(index_);
      make_stream();
    }
    const std::size_t after = used_device_memory(uuid_);
    const std::lock_guard lock(mutex_);
    context_bytes_ += before == 0 ? 0 : growth(before, after);
    started_in_ = detail::forks;
  });
  if (started_in_ == detail::forks.load(std::memory_order_relaxed)) return;
  throw DeviceError("[device] expected a GPU that this process has started but got its parent's");
}

void Gpu::make_stream() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  void* pinned = nullptr;
  check(cudaHostAlloc(&pinned, kPieceBytes * kPieces + kOutBytes, cudaHostAllocDefault),
        "cudaHostAlloc");
  auto* bytes = static_cast<std::byte*>(pinned);
  for (Piece& piece : ring_) {
    piece.bytes = bytes;
    bytes += kPieceBytes;
    check(cudaEventCreateWithFlags(&piece.copied, cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
  }
  out_ = bytes;
  void* scanned = nullptr;
  check(cudaMalloc(&scanned, sizeof *scanned_), "cudaMalloc");
  scanned_ = static_cast<unsigned long long*>(scanned);
  check(cudaEventCreateWithFlags(&reached_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

const Context& Gpu::context() {
  start();
  const std::lock_guard lock(context_mutex_);
  if (context_ != nullptr) return *context_;
  const Selected selected(index_);
  const std::size_t before = available_bytes();
  auto made = std::make_unique<Context>();
  made->device = index_;
  made->uuid = uuid_.c_str();
  made->multiprocessors = attribute_of(index_, cudaDevAttrMultiProcessorCount);
  made->cluster_blocks = most_cluster_blocks();
  made->dependent_launch = compiled_for() >= 90;
  const int major = attribute_of(index_, cudaDevAttrComputeCapabilityMajor);
  const int minor = attribute_of(index_, cudaDevAttrComputeCapabilityMinor);
  made->wgmma = kBuiltForWgmma && made->dependent_launch && major == 9 && minor == 0;
  check(cublasLtCreate(&made->blas), "cublasLtCreate");
  check(cudnnCreate(&made->dnn), "cudnnCreate");
  context_ = std::move(made);
  const std::size_t after = available_bytes();
  const std::lock_guard masked_dy(mutex_);
  context_bytes_ += growth(after, before);
  return *context_;
}

std::shared_ptr<std::byte> Gpu::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  start();
  const Selected selected(index_);
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
  const LockUnlessLost lock(mutex_);
  if (!lock) return;
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
  start();
  const Selected selected(index_);
  if (bytes == 0) return;
  if (bytes <= kSmallCopyBytes) {
    write_small(to, from, bytes, stream_);
  } else {
    write_through_ring(to, static_cast<const std::byte*>(from), bytes);
  }
  const std::lock_guard masked_dy(mutex_);
  ++counters_.copies_in;
}

void Gpu::write_through_ring(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::lock_guard lock(in_mutex_);
  for (std::size_t done = 0; done < bytes; done += kPieceBytes) {
    const std::size_t length = std::min(kPieceBytes, bytes - done);
    Piece& piece = ring_[next_piece_];
    next_piece_ = (next_piece_ + 1) % kPieces;
    check(cudaEventSynchronize(piece.copied), "cudaEventSynchronize");
    std::memcpy(piece.bytes, from + done, length);
    check(cudaMemcpyAsync(to + done, piece.bytes, length, cudaMemcpyHostToDevice, stream_),
          "cudaMemcpyAsync");
    check(cudaEventRecord(piece.copied, stream_), "cudaEventRecord");
  }
}

void Gpu::read(void* to, const std::byte* from, std::size_t bytes) {
  start();
  const Selected selected(index_);
  const bool small = bytes <= kOutBytes;
  std::unique_lock lock(out_mutex_, std::defer_lock);
  if (small) lock.lock();
  void* target = small ? out_ : to;
  if (bytes > 0 && bytes <= kSmallCopyBytes) {
    read_small(out_, from, bytes, stream_);
  } else {
    check(cudaMemcpyAsync(target, from, bytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
  }
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  check_ranks();
  if (small) std::memcpy(to, out_, bytes);
  count_copy_out();
}

std::unique_ptr<PendingRead> Gpu::read_later(const std::byte* from, std::size_t bytes) {
  start();
  const Selected selected(index_);
  std::unique_ptr<PendingRead> read = async_reads_.begin(from, bytes, stream_);
  if (read != nullptr) count_copy_out();
  return read;
}

std::shared_ptr<std::byte> Gpu::keep(const std::vector<std::byte>& bytes) {
  start();
  const Selected selected(index_);
  const std::size_t size = rounded(bytes.size());
  void* memory = take_block(size, 0);
  const std::shared_ptr<std::byte> block(static_cast<std::byte*>(memory),
                                         [this, size](std::byte* p) {
                                           give_back(p, size, 0);
                                           const LockUnlessLost lock(mutex_);
                                           if (lock) context_bytes_ -= size;
                                         });
  check(cudaMemcpyAsync(memory, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream_),
        "cudaMemcpyAsync");
  const std::lock_guard lock(mutex_);
  context_bytes_ += size;
  return block;
}

void Gpu::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  start();
  const Selected selected(index_);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
  const std::lock_guard masked_dy(mutex_);
  ++counters_.copies_within;
}

void Gpu::gather_rows(std::byte* to, const RowTable& rows, const std::int64_t* places,
                      std::size_t count) {
  start();
  const Selected selected(index_);
  enqueue_gather(to, rows, places, count, stream_);
  const std::lock_guard masked_dy(mutex_);
  ++counters_.copies_within;
}

void Gpu::clear(std::byte* at, std::size_t bytes) {
  start();
  const Selected selected(index_);
  check(cudaMemsetAsync(at, 0, bytes, stream_), "cudaMemsetAsync");
}

void Gpu::finish() {
  start();
  const Selected selected(index_);
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  check_ranks();
}

std::uintptr_t Gpu::stream_number() {
  start();
  return reinterpret_cast<std::uintptr_t>(stream_);
}

void Gpu::order_before(std::uintptr_t stream) {
  start();
  order(stream_, reinterpret_cast<cudaStream_t>(stream));
}

void Gpu::order_after(std::uintptr_t stream) {
  start();
  order(reinterpret_cast<cudaStream_t>(stream), stream_);
}

void Gpu::order(cudaStream_t first, cudaStream_t second) {
  const Selected selected(index_);
  const std::lock_guard lock(order_mutex_);
  check(cudaEventRecord(reached_, first), "cudaEventRecord");
  check(cudaStreamWaitEvent(second, reached_, 0), "cudaStreamWaitEvent");
}

bool Gpu::all_finite(DataType type, const std::byte* values, std::size_t bytes) {
  start();
  const Selected selected(index_);
  const std::lock_guard lock(out_mutex_);
  unsigned long long found = 0;
  std::memcpy(out_, &found, sizeof found);
  check(cudaMemcpyAsync(scanned_, out_, sizeof found, cudaMemcpyHostToDevice, stream_),
        "cudaMemcpyAsync");
  scan_not_finite(type, values, bytes, scanned_, stream_);
  check(cudaMemcpyAsync(out_, scanned_, sizeof found, cudaMemcpyDeviceToHost, stream_),
        "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  std::memcpy(&found, out_, sizeof found);
  return found == 0;
}

std::size_t Gpu::context_bytes() const {
  const std::lock_guard lock(mutex_);
  return context_bytes_;
}

DeviceCounters Gpu::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void Gpu::count_captured(std::int64_t count, std::int64_t wgmma) {
  const std::lock_guard lock(mutex_);
  counters_.captured += count;
  counters_.warpgroups += wgmma;
}

void Gpu::launch(const CapturedGraph& run, const HostTransfers& transfers) {
  run.launch(transfers, stream_);
  last_run_ = &run;
  count_launches(1);
}

void Gpu::forget(const CapturedGraph& run) {
  if (last_run_ == &run) last_run_ = nullptr;
}

double Gpu::repeat_last_run(int times) {
  if (last_run_ == nullptr || times < 1) return 0;
  Stopwatch watch;
  watch.start(stream_);
  for (int k = 0; k < times; ++k) last_run_->launch({}, stream_);
  watch.stop(stream_);
  return watch.seconds() / times;
}

void Gpu::count_upload() {
  const std::lock_guard lock(mutex_);
  ++counters_.copies_in;
}

AsyncReads::Reserved Gpu::reserve_read(std::size_t bytes) {
  start();
  const Selected selected(index_);
  AsyncReads::Reserved reserved = async_reads_.reserve(bytes);
  if (reserved.read != nullptr) count_copy_out();
  return reserved;
}

void Gpu::count_copy_out() {
  const std::lock_guard lock(mutex_);
  ++counters_.copies_out;
}

void Gpu::count_launches(std::int64_t count, std::int64_t wgmma) {
  const std::lock_guard lock(mutex_);
  counters_.launches += count;
  counters_.warpgroups += wgmma;
}

}  // namespace traingraph::cuda
