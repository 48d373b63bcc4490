// The backend metal: its device, its table of kernels, and its memory.
#include "backends/metal/metal.h"

#include <traingraph/errors.h>
#include <traingraph/mutex.h>

#include "backends/metal/device/executable.h"
#include "backends/metal/device/ref.h"
#include "backends/metal/kernels/entries.h"
#include "runtime/device_memory.h"
#include "runtime/diagnostics.h"
#include "runtime/table_backend.h"

namespace traingraph::metal {
namespace {

// The device is made when somebody first asks, and never destroyed: memory is given back until the
// process ends.
class MetalBackend final : public TableBackend<KernelEntry>, DeviceMemory, Diagnostics {
 public:
  std::string name() const override { return "metal"; }
  Support available() const override {
    find();
    return reason_.empty() ? Support{} : Support::no(reason_);
  }
  std::vector<std::string> devices() const override { return {device().name()}; }
  const Traits& traits() const override {
    static constexpr Traits kTraits{.named_kernels = true};
    return kTraits;
  }

  std::unique_ptr<Executable> compile(const ir::Graph& graph,
                                      const std::vector<ir::NodeId>& nodes) const override {
    const Pool pool;
    std::vector<std::unique_ptr<Kernel>> kernels(graph.nodes.size());
    for_each_entry(graph, nodes, [&](const KernelEntry& entry, ir::NodeId id) {
      kernels[static_cast<std::size_t>(id)] = entry.make(graph, graph.node(id), device());
    });
    return std::make_unique<MetalExecutable>(device(), graph, std::move(kernels));
  }

  // Memory is shared with the host. It is still the device's own: kernels need to know the buffer
  // of an address, and runs are in flight when run() has returned.
  const DeviceMemory* memory() const override { return this; }
  const Diagnostics* diagnostics() const override { return this; }
  std::shared_ptr<std::byte> allocate(std::size_t bytes) const override {
    return device().allocate(bytes);
  }
  void write(std::byte* to, const void* from, std::size_t bytes) const override {
    device().write(to, from, bytes);
  }
  void read(void* to, const std::byte* from, std::size_t bytes) const override {
    device().read(to, from, bytes);
  }
  std::unique_ptr<PendingRead> read_later(const std::byte* from, std::size_t bytes) const override {
    return device().read_later(from, bytes);
  }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) const override {
    device().copy(to, from, bytes);
  }
  void clear(std::byte* at, std::size_t bytes) const override { device().clear(at, bytes); }
  void gather_rows(std::byte* to, const RowTable& rows, const std::int64_t* places,
                   std::size_t count) const override {
    gather_on_host(to, rows, places, count);
  }
  void finish() const override { device().finish(); }
  double measured_seconds() const override { return device().seconds(); }
  std::size_t context_bytes() const override { return device().kept_bytes(); }
  DeviceCounters counters() const override { return device().counters(); }

 protected:
  const std::vector<KernelEntry>& table() const override { return metal::table(); }

 private:
  void find() const {
    once_.call([this] {
      try {
        device_ = new Device;
      } catch (const Error& error) {
        reason_ = error.what();
      }
    });
  }
  Device& device() const {
    find();
    if (device_ == nullptr) throw DeviceError(reason_);
    return *device_;
  }

  mutable Once once_;
  mutable Device* device_ = nullptr;
  mutable std::string reason_;
};

}  // namespace

const Backend& backend() {
  static const auto* const instance = new MetalBackend;
  return *instance;
}

}  // namespace traingraph::metal
