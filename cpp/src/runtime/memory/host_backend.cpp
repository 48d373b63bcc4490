// Compiles for a backend of tables of kernels on host memory, and runs its kernels one after
// another.
#include "runtime/memory/host_backend.h"

#include <algorithm>
#include <chrono>

#include "runtime/memory/allocator.h"
#include "runtime/numbers/finite.h"
#include "runtime/program.h"
#include "runtime/threads/interruption.h"
#include "runtime/threads/team.h"

namespace traingraph {
namespace {

// What goes on beside other nodes, and who waits for it.
class ConcurrentNodes {
 public:
  ConcurrentNodes(const ir::Graph& graph, const std::vector<std::unique_ptr<Kernel>>& kernels)
      : of_node_(kernels.size()), waits_(kernels.size()) {
    const std::vector<ir::ValueId> roots = alias_roots(graph);
    const auto root = [&](ir::ValueId v) { return roots[static_cast<std::size_t>(v)]; };
    std::vector<std::vector<ConcurrentKernel*>> of_root(graph.values.size());
    for (std::size_t n = 0; n < kernels.size(); ++n) {
      if (!may_go_on(graph.nodes[n])) continue;
      of_node_[n] = dynamic_cast<ConcurrentKernel*>(kernels[n].get());
      if (of_node_[n] == nullptr) continue;
      all_.push_back(of_node_[n]);
      for (const ir::ValueId v : graph.nodes[n].outputs) {
        of_root[static_cast<std::size_t>(root(v))].push_back(of_node_[n]);
      }
    }
    for (std::size_t n = 0; n < kernels.size() && !all_.empty(); ++n) {
      // What has failed before a parameter changes leaves all of them as they were.
      const auto writes = [&](ir::ValueId v) { return graph.value(v).writes != ir::kNone; };
      if (std::ranges::any_of(graph.nodes[n].outputs, writes)) {
        waits_[n] = all_;
        continue;
      }
      for (const ir::ValueId v : graph.nodes[n].inputs) {
        for (ConcurrentKernel* one : of_root[static_cast<std::size_t>(root(v))]) {
          if (std::ranges::find(waits_[n], one) == waits_[n].end()) waits_[n].push_back(one);
        }
      }
    }
  }

  bool empty() const { return all_.empty(); }
  ConcurrentKernel* of(ir::NodeId node) const { return of_node_[static_cast<std::size_t>(node)]; }
  // Those that are done before the node.
  const std::vector<ConcurrentKernel*>& before(ir::NodeId node) const {
    return waits_[static_cast<std::size_t>(node)];
  }
  bool waits(ir::NodeId node, const ConcurrentKernel* for_it) const {
    return std::ranges::find(before(node), for_it) != before(node).end();
  }
  const std::vector<ConcurrentKernel*>& all() const { return all_; }

 private:
  std::vector<ConcurrentKernel*> of_node_;
  std::vector<std::vector<ConcurrentKernel*>> waits_;
  std::vector<ConcurrentKernel*> all_;
};

class KernelList final : public Executable {
 public:
  KernelList(const ir::Graph& graph, std::vector<std::unique_ptr<Kernel>> kernels, int threads)
      : kernels_(std::move(kernels)), concurrent_(graph, kernels_), threads_(threads) {}

  bool sums_go_on() const override { return !concurrent_.empty(); }

  std::size_t workspace_bytes(ir::NodeId node) const override {
    const auto& kernel = kernels_[static_cast<std::size_t>(node)];
    return kernel ? kernel->workspace_bytes() : 0;
  }

  void expect_threads() const override {
    if (threads_ > 1) expect_team(threads_);
  }

  void run(const ir::NodeId* order, std::size_t count, Pointers pointers,
           double* seconds) override {
    if (seconds == nullptr && !concurrent_.empty()) return run_concurrently(order, count, pointers);
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
  void run_concurrently(const ir::NodeId* order, std::size_t count, Pointers pointers) {
    bool has_begun = false;  // one of those that go on
    try {
      for (std::size_t k = 0; k < count; ++k) {
        for (ConcurrentKernel* one : concurrent_.before(order[k])) one->finish();
        ConcurrentKernel* const begun = concurrent_.of(order[k]);
        has_begun = has_begun || begun != nullptr;
        const bool is_awaited = k + 1 == count || concurrent_.waits(order[k + 1], begun);
        if (begun != nullptr && !is_awaited) {
          begun->begin(pointers);
        } else {
          kernels_[static_cast<std::size_t>(order[k])]->run(pointers);
        }
      }
      for (ConcurrentKernel* one : concurrent_.all()) one->finish();
    } catch (...) {
      if (!has_begun) throw;
      for (ConcurrentKernel* one : concurrent_.all()) one->abandon();
      throw;
    }
  }

  std::vector<std::unique_ptr<Kernel>> kernels_;  // by node number; null for views
  const ConcurrentNodes concurrent_;
  int threads_;  // the most that one of them takes
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
  return std::make_unique<KernelList>(graph, std::move(kernels), threads);
}

std::shared_ptr<std::byte> HostBackend::allocate(std::size_t bytes) const {
  return allocate_host(bytes);
}

}  // namespace traingraph
