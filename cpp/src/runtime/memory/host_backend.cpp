// Compiles for a backend of tables of kernels on host memory, and runs its kernels one after
// another.
#include "runtime/memory/host_backend.h"

#include <algorithm>
#include <chrono>

#include "runtime/memory/allocator.h"
#include "runtime/numbers/finite.h"
#include "runtime/threads/interruption.h"
#include "runtime/threads/team.h"

namespace traingraph {
namespace {

class KernelList final : public Executable {
 public:
  KernelList(std::vector<std::unique_ptr<Kernel>> kernels, int threads)
      : kernels_(std::move(kernels)), threads_(threads) {}

  std::size_t workspace_bytes(ir::NodeId node) const override {
    const auto& kernel = kernels_[static_cast<std::size_t>(node)];
    return kernel ? kernel->workspace_bytes() : 0;
  }

  void expect_threads() const override {
    if (threads_ > 1) expect_team(threads_);
  }

  void run(const ir::NodeId* order, std::size_t count, Pointers pointers,
           double* seconds) override {
    if (seconds == nullptr) {
      for (std::size_t k = 0; k < count; ++k) {
        kernels_[static_cast<std::size_t>(order[k])]->run(pointers);
      }
      return;
    }
    using Clock = std::chrono::steady_clock;
    for (std::size_t k = 0; k < count; ++k) {
      const Clock::time_point start = Clock::now();
      kernels_[static_cast<std::size_t>(order[k])]->run(pointers);
      seconds[order[k]] = std::chrono::duration<double>(Clock::now() - start).count();
    }
  }

  bool all_finite(DataType type, const std::byte* bytes, std::size_t length) const override {
    if (ir::is_half(type)) return all_finite_half(type, bytes, length);
    return type == DataType::kFloat32 ? all_finite_float(bytes, length)
                                      : all_finite_double(bytes, length);
  }

 private:
  std::vector<std::unique_ptr<Kernel>> kernels_;  // by node number; null for views
  int threads_;                                   // the most that one of them takes
};

}  // namespace

std::unique_ptr<Executable> HostBackend::compile(const ir::Graph& graph,
                                                 const std::vector<ir::NodeId>& nodes) const {
  std::vector<std::unique_ptr<Kernel>> kernels(graph.nodes.size());
  int threads = 1;
  for_each_entry(graph, nodes, [&](const KernelEntry& entry, ir::NodeId id) {
    check_compilation();
    const NotedThreads noted;
    kernels[static_cast<std::size_t>(id)] = entry.make(graph, graph.node(id));
    threads = std::max(threads, noted.most());
  });
  return std::make_unique<KernelList>(std::move(kernels), threads);
}

std::shared_ptr<std::byte> HostBackend::allocate(std::size_t bytes) const {
  return allocate_host(bytes);
}

}  // namespace traingraph
