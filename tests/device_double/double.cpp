// A plugin that stands in for a GPU: the reference backend over memory that the host cannot reach.
// Its addresses are the host's with a bit that no address has, so that whoever reads or writes them
// without the backend crashes. What the core does for devices with memory of their own is tested on
// it where there is no GPU.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <traingraph/errors.h>

#include "backends/reference/reference.h"
#include "runtime/device_memory.h"
#include "runtime/diagnostics.h"
#include "runtime/foreign_streams.h"
#include "runtime/plugin.h"

namespace traingraph {
namespace {

constexpr std::uintptr_t kAway = std::uintptr_t{1} << 60;

std::byte* away(std::byte* address) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(address) | kAway);
}
std::byte* here(const std::byte* address) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(address) & ~kAway);
}

struct Counters {
  std::atomic<std::int64_t> launches, allocations, allocated, in, out, within;
};

constexpr std::size_t kAlignment = 16;

using Bytes = std::vector<std::byte>;

// As of when the read is enqueued, or its run is over: nothing runs by itself here.
class DoublePendingRead final : public PendingRead {
 public:
  explicit DoublePendingRead(std::shared_ptr<const Bytes> bytes) : bytes_(std::move(bytes)) {}
  void take(void* to) override { std::memcpy(to, bytes_->data(), bytes_->size()); }

 private:
  std::shared_ptr<const Bytes> bytes_;
};

// The number of the run that fails, from 1 on; 0: none.
std::int64_t failing_run() {
  const char* const number = std::getenv("TRAINGRAPH_DOUBLE_FAILS");
  return number == nullptr ? 0 : std::atoll(number);
}

// Launches count runs, as if each had been captured. Refuses addresses that a GPU's kernels could
// not work on. What travels with a run that fails is lost.
class DoubleExecutable final : public Executable {
 public:
  DoubleExecutable(std::unique_ptr<Executable> inner, const ir::Graph& graph, Counters& counters)
      : inner_(std::move(inner)),
        addresses_(graph.values.size() + graph.nodes.size()),
        counters_(counters) {
    for (const ir::Value& value : graph.values) is_number_.push_back(value.type.shape.empty());
  }

  std::size_t workspace_bytes(ir::NodeId node) const override {
    return inner_->workspace_bytes(node);
  }
  bool carry_in(std::byte* to, const void* bytes, std::size_t count) override {
    if (count > kMostLateBytes) return false;
    ++counters_.in;
    const auto* const first = static_cast<const std::byte*>(bytes);
    brought_ = {to, Bytes(first, first + count)};
    return true;
  }
  std::unique_ptr<PendingRead> carry_out(const std::byte* from, std::size_t bytes) override {
    ++counters_.out;
    fetched_ = {from, std::make_shared<Bytes>(bytes)};
    return std::make_unique<DoublePendingRead>(fetched_.second);
  }
  void run(const ir::NodeId* order, std::size_t count, Pointers pointers,
           double* seconds) override {
    const auto [to, bytes] = std::exchange(brought_, {});
    const auto [from, read] = std::exchange(fetched_, {});
    if (++counters_.launches == failing_run()) throw DeviceError("[double] a run that fails");
    if (to != nullptr) std::memcpy(here(to), bytes.data(), bytes.size());
    for (std::size_t k = 0; k < addresses_.size(); ++k) {
      addresses_[k] = here(pointers[k]);
      const bool is_number = k < is_number_.size() && is_number_[k];
      if (is_number || reinterpret_cast<std::uintptr_t>(pointers[k]) % kAlignment == 0) continue;
      throw DeviceError("[double] expected addresses aligned to 16 bytes");
    }
    inner_->run(order, count, addresses_.data(), seconds);
    if (from != nullptr) std::memcpy(read->data(), here(from), read->size());
  }
  bool all_finite(DataType type, const std::byte* bytes, std::size_t length) const override {
    return inner_->all_finite(type, here(bytes), length);
  }

 private:
  std::unique_ptr<Executable> inner_;
  std::vector<std::byte*> addresses_;
  std::vector<bool> is_number_;  // by value
  Counters& counters_;
  // Of the next run.
  std::pair<std::byte*, Bytes> brought_{};
  std::pair<const std::byte*, std::shared_ptr<Bytes>> fetched_{};
};

class DoubleBackend final : public Backend, DeviceMemory, ForeignStreams, Diagnostics {
 public:
  std::string name() const override { return "cuda"; }
  std::vector<std::string> devices() const override { return {"a double over host memory"}; }
  Support supports(const ir::Graph& graph, const ir::Node& node) const override {
    return host_.supports(graph, node);
  }
  bool fuses(const ir::Graph& graph, const ir::Node& producer, const ir::ScalarList& list,
             const std::vector<ir::ValueId>& extra) const override {
    return host_.fuses(graph, producer, list, extra);
  }
  LayoutChoice layouts(const ir::Graph& graph, const ir::Node& node) const override {
    return host_.layouts(graph, node);
  }
  std::unique_ptr<Executable> compile(const ir::Graph& graph,
                                      const std::vector<ir::NodeId>& nodes) const override {
    return std::make_unique<DoubleExecutable>(host_.compile(graph, nodes), graph, counters_);
  }
  std::shared_ptr<std::byte> allocate(std::size_t bytes) const override {
    const std::shared_ptr<std::byte> memory = host_.allocate(bytes);
    if (memory == nullptr) return nullptr;
    ++counters_.allocations;
    counters_.allocated += static_cast<std::int64_t>(bytes);
    return {away(memory.get()), [this, memory, bytes](std::byte*) {
              counters_.allocated -= static_cast<std::int64_t>(bytes);
            }};
  }

  const Traits& traits() const override {
    static constexpr Traits kTraits{.alignment = kAlignment};
    return kTraits;
  }
  const DeviceMemory* memory() const override { return this; }
  const ForeignStreams* streams() const override { return this; }
  const Diagnostics* diagnostics() const override { return this; }

  void write(std::byte* to, const void* from, std::size_t bytes) const override {
    ++counters_.in;
    std::memcpy(here(to), from, bytes);
  }
  void read(void* to, const std::byte* from, std::size_t bytes) const override {
    ++counters_.out;
    std::memcpy(to, here(from), bytes);
  }
  std::unique_ptr<PendingRead> read_later(const std::byte* from, std::size_t bytes) const override {
    ++counters_.out;
    return std::make_unique<DoublePendingRead>(
        std::make_shared<const Bytes>(here(from), here(from) + bytes));
  }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) const override {
    ++counters_.within;
    std::memcpy(here(to), here(from), bytes);
  }
  void gather_rows(std::byte* to, const RowTable& rows, const std::int64_t* places,
                   std::size_t count) const override {
    ++counters_.within;
    gather_on_host(
        here(to), {here(rows.first), rows.row_bytes},
        reinterpret_cast<const std::int64_t*>(here(reinterpret_cast<const std::byte*>(places))),
        count);
  }
  void clear(std::byte* at, std::size_t bytes) const override { std::memset(here(at), 0, bytes); }
  int gpu() const override { return 0; }
  std::string uuid() const override { return "GPU-double"; }
  std::uintptr_t stream() const override { return 0; }
  void order_before(std::uintptr_t) const override {}
  void order_after(std::uintptr_t) const override {}
  void finish() const override {}
  DeviceCounters counters() const override {
    return {.launches = counters_.launches,
            .allocations = counters_.allocations,
            .allocated_bytes = counters_.allocated,
            .copies_in = counters_.in,
            .copies_out = counters_.out,
            .copies_within = counters_.within};
  }

 private:
  const Backend& host_ = reference::backend();
  mutable Counters counters_{};
};

const std::vector<const Backend*>& devices() {
  static const auto* made = new std::vector<const Backend*>{new DoubleBackend};
  return *made;
}

}  // namespace
}  // namespace traingraph

extern "C" __attribute__((visibility("default"))) const traingraph::Plugin* traingraph_plugin(
    const traingraph::PluginServices*) {
  static const traingraph::Plugin plugin{TRAINGRAPH_BUILD_ID, traingraph::devices, "90a-real host"};
  return &plugin;
}
