#include "backends/cuda/executable.h"

#include <algorithm>

#include "backends/cuda/check.h"

namespace traingraph::cuda {
namespace {

// Two points of a stream.
class Stopwatch {
 public:
  Stopwatch() {
    check(cudaEventCreate(&start_), "cudaEventCreate");
    check(cudaEventCreate(&stop_), "cudaEventCreate");
  }
  ~Stopwatch() {
    static_cast<void>(cudaEventDestroy(start_));
    static_cast<void>(cudaEventDestroy(stop_));
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  void start(cudaStream_t stream) { check(cudaEventRecord(start_, stream), "cudaEventRecord"); }
  void stop(cudaStream_t stream) { check(cudaEventRecord(stop_, stream), "cudaEventRecord"); }
  double seconds() const {
    check(cudaEventSynchronize(stop_), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start_, stop_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
};

}  // namespace

CudaExecutable::CudaExecutable(Gpu& gpu, const ir::Graph& graph,
                               std::vector<std::unique_ptr<Kernel>> kernels)
    : gpu_(gpu),
      kernels_(std::move(kernels)),
      addresses_(graph.values.size() + graph.nodes.size()) {
  std::vector<std::size_t> workspaces;
  for (const auto& kernel : kernels_) {
    workspaces.push_back(kernel != nullptr ? kernel->workspace_bytes() : 0);
  }
  accesses_ = accesses_of(graph, workspaces);
}

CudaExecutable::~CudaExecutable() {
  for (Range& range : ranges_) {
    try {
      forget(range);
    } catch (...) {
      // The process ends, or the device is lost: there is nothing left to give back.
    }
  }
}

std::size_t CudaExecutable::workspace_bytes(ir::NodeId node) const {
  const auto& kernel = kernels_[static_cast<std::size_t>(node)];
  return kernel != nullptr ? kernel->workspace_bytes() : 0;
}

CudaExecutable::Range& CudaExecutable::range(const ir::NodeId* order, std::size_t count) {
  for (Range& known : ranges_) {
    if (known.order == order && known.count == count) return known;
  }
  return ranges_.emplace_back(Range{order, count, {}});
}

void CudaExecutable::run(const ir::NodeId* order, std::size_t count, Pointers pointers,
                         double* seconds) {
  if (count == 0) return;
  const Selected selected(gpu_.index());
  const std::lock_guard lock(gpu_.launching);
  if (seconds != nullptr) return run_timed(order, count, pointers, seconds);
  const auto launch = [&] {
    launch_each(order, count, pointers, gpu_.stream());
    gpu_.count_launches(static_cast<std::int64_t>(count));
  };
  if (count == 1) return launch();
  Range& known = range(order, count);
  const bool same =
      std::equal(known.addresses.begin(), known.addresses.end(), pointers, pointers + addresses_);
  if (!same) {
    forget(known);
    known.addresses.assign(pointers, pointers + addresses_);
    return launch();
  }
  if (known.captured == nullptr) capture(known);
  check(cudaGraphLaunch(known.captured, gpu_.stream()), "cudaGraphLaunch");
  gpu_.count_launches(1);
}

void CudaExecutable::launch_each(const ir::NodeId* order, std::size_t count, Pointers pointers,
                                 cudaStream_t stream) const {
  for (std::size_t k = 0; k < count; ++k) {
    kernels_[static_cast<std::size_t>(order[k])]->launch(pointers, stream);
  }
}

void CudaExecutable::capture(Range& range) const {
  Pointers pointers = range.addresses.data();
  range.captured = cuda::capture(
      range.order, dependencies(accesses_, range.order, range.count, pointers),
      [&](ir::NodeId node, cudaStream_t stream) { launch_each(&node, 1, pointers, stream); });
  check(cudaGraphUpload(range.captured, gpu_.stream()), "cudaGraphUpload");
}

void CudaExecutable::forget(Range& range) const {
  if (range.captured == nullptr) return;
  const Selected selected(gpu_.index());
  check(cudaStreamSynchronize(gpu_.stream()), "cudaStreamSynchronize");
  check(cudaGraphExecDestroy(range.captured), "cudaGraphExecDestroy");
  range.captured = nullptr;
}

void CudaExecutable::run_timed(const ir::NodeId* order, std::size_t count, Pointers pointers,
                               double* seconds) const {
  Stopwatch watch;
  for (std::size_t k = 0; k < count; ++k) {
    watch.start(gpu_.stream());
    launch_each(order + k, 1, pointers, gpu_.stream());
    watch.stop(gpu_.stream());
    seconds[order[k]] = watch.seconds();
  }
  gpu_.count_launches(static_cast<std::int64_t>(count));
}

bool CudaExecutable::all_finite(DataType type, const std::byte* bytes, std::size_t length) const {
  return gpu_.all_finite(type, bytes, length);
}

}  // namespace traingraph::cuda
