// The CUDA backend: one object per GPU, handed to the core as a plugin.
#include <dlfcn.h>

#include <mutex>

#include <traingraph/errors.h>

#include "backends/cuda/kernel/check.h"
#include "backends/cuda/kernel/core_services.h"
#include "backends/cuda/kernel/node_kernel.h"
#include "backends/cuda/launch/executable.h"
#include "backends/cuda/normalization/layer_norms.h"
#include "backends/cuda/normalization/residual_pairs.h"
#include "runtime/device_memory.h"
#include "runtime/diagnostics.h"
#include "runtime/foreign_streams.h"
#include "runtime/plugin.h"
#include "runtime/table_backend.h"

namespace traingraph::cuda {
namespace {

class CudaBackend final : public TableBackend<KernelEntry>,
                          DeviceMemory,
                          ForeignStreams,
                          Diagnostics {
 public:
  explicit CudaBackend(int index) : gpu_(index) {}

  std::string name() const override { return "cuda"; }
  std::vector<std::string> devices() const override { return {gpu_.name()}; }

  std::unique_ptr<Executable> compile(const ir::Graph& graph,
                                      const std::vector<ir::NodeId>& nodes) const override {
    const Context& context = gpu_.context();
    const Selected selected(gpu_.index());
    const std::lock_guard lock(gpu_.launching);
    std::vector<std::unique_ptr<Kernel>> kernels(graph.nodes.size());
    for_each_entry(graph, nodes, [&](const KernelEntry& entry, ir::NodeId id) {
      kernels[static_cast<std::size_t>(id)] = entry.make(graph, graph.node(id), context);
    });
    return std::make_unique<CudaExecutable>(gpu_, graph, std::move(kernels), context);
  }

  std::shared_ptr<std::byte> allocate(std::size_t bytes) const override {
    return gpu_.allocate(bytes);
  }
  const Traits& traits() const override {
    static constexpr Traits kTraits{.alignment = kAlignment,
                                    .counts_rows = true,
                                    .joins_projections = true,
                                    .bucket_bytes = std::size_t{25} << 20};
    return kTraits;
  }
  ir::Graph lowered(ir::Graph graph) const override {
    graph = with_residual_pairs(with_relu_masks(std::move(graph)), *this);
    return with_layer_norms(std::move(graph), *this, gpu_.context().multiprocessors);
  }
  const DeviceMemory* memory() const override { return this; }
  const ForeignStreams* streams() const override { return this; }
  const Diagnostics* diagnostics() const override { return this; }

  void write(std::byte* to, const void* from, std::size_t bytes) const override {
    gpu_.write(to, from, bytes);
  }
  void read(void* to, const std::byte* from, std::size_t bytes) const override {
    gpu_.read(to, from, bytes);
  }
  std::unique_ptr<PendingRead> read_later(const std::byte* from, std::size_t bytes) const override {
    return gpu_.read_later(from, bytes);
  }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) const override {
    gpu_.copy(to, from, bytes);
  }
  void gather_rows(std::byte* to, const RowTable& rows, const std::int64_t* places,
                   std::size_t count) const override {
    gpu_.gather_rows(to, rows, places, count);
  }
  void clear(std::byte* at, std::size_t bytes) const override { gpu_.clear(at, bytes); }
  int gpu() const override { return gpu_.index(); }
  std::string uuid() const override { return gpu_.uuid(); }
  std::uintptr_t stream() const override { return gpu_.stream_number(); }
  void order_before(std::uintptr_t stream) const override { gpu_.order_before(stream); }
  void order_after(std::uintptr_t stream) const override { gpu_.order_after(stream); }
  std::size_t context_bytes() const override { return gpu_.context_bytes(); }
  void finish() const override { gpu_.finish(); }
  DeviceCounters counters() const override { return gpu_.counters(); }
  double repeat_last_run(int times) const override {
    const Selected selected(gpu_.index());
    const std::lock_guard lock(gpu_.launching);
    return gpu_.repeat_last_run(times);
  }

 protected:
  const std::vector<KernelEntry>& table() const override { return cuda::table(); }

 private:
  mutable Gpu gpu_;  // const methods of a backend use the device's state
};

// Never destroyed: memory and captured graphs are released until the process ends.
std::vector<const Backend*> find_devices() {
  if (dlopen("libcuda.so.1", RTLD_LAZY) == nullptr) {
    throw DeviceError("[device] expected NVIDIA's driver but libcuda.so.1 cannot be loaded: " +
                      std::string(dlerror()));
  }
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorInsufficientDriver) {
    throw DeviceError(
        "[device] expected an NVIDIA driver for CUDA 13 (580 or newer) but this machine's is "
        "older");
  }
  if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0)) {
    throw DeviceError("[device] expected a GPU but NVIDIA's driver finds none");
  }
  check(code, "cudaGetDeviceCount");
  std::vector<const Backend*> devices;
  for (int index = 0; index < count; ++index) devices.push_back(new CudaBackend(index));
  return devices;
}

const std::vector<const Backend*>& devices() {
  static const auto* found = new std::vector<const Backend*>(find_devices());
  return *found;
}

}  // namespace
}  // namespace traingraph::cuda

extern "C" __attribute__((visibility("default"))) const traingraph::Plugin* traingraph_plugin(
    const traingraph::PluginServices* services) {
  traingraph::cuda::core_services = services;
  static const traingraph::Plugin plugin{TRAINGRAPH_BUILD_ID, traingraph::cuda::devices,
                                         TRAINGRAPH_CUDA_ARCHITECTURES};
  return &plugin;
}
