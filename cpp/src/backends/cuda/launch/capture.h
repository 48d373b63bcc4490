// A run captured as a CUDA graph, and the dependencies between its pieces of work.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include <traingraph/mutex.h>

#include "backends/cuda/kernel/kernel.h"
#include "backends/cuda/launch/launch_groups.h"
#include "backends/cuda/memory/host_transfers.h"
#include "ir/graph.h"

namespace traingraph::cuda {

// A range of memory that work reads or writes.
struct Access {
  std::size_t address;  // number in the table of addresses; for a view, that of the viewed value
  std::size_t bytes;
  bool writes;
};

// The work of one node, or of several that are fused.
struct Work {
  ir::NodeId node;  // the last of them
  const Kernel* kernel;
  std::vector<Access> accesses;  // operands and workspace
  bool saturates_memory;         // occupies the memory bandwidth alone

  double cost() const;  // an estimate of time, in bytes of memory traffic
};

// By node number. Views have no kernel.
std::vector<Work> work_of(const ir::Graph& graph,
                          const std::vector<std::unique_ptr<Kernel>>& kernels);

// Whether the graph has matrix products so large that the launch order of other kernels matters.
bool has_large_products(const ir::Graph& graph, const std::vector<Work>& by_node);

// Whether work accesses any of so many bytes.
bool touches(const Work& work, Pointers pointers, const std::byte* bytes, std::size_t count);

// Whether one writes memory that the other accesses.
bool conflict(const std::vector<Access>& a, const std::vector<Access>& b, Pointers pointers);

// By position in the run: the earlier positions that must be done before, without those that follow
// from others. Two pieces of work keep their order if one writes memory that the other accesses.
// They also keep it if both saturate memory bandwidth: side by side they only compete for the
// caches.
std::vector<std::vector<std::size_t>> dependencies(const std::vector<Work>& run, Pointers pointers);

// By position: whether later work conflicts with it.
std::vector<bool> needed_later(const std::vector<Work>& run, Pointers pointers);

// A captured run. The arguments of its upload and its download are set for each launch.
class CapturedGraph {
 public:
  // Captures launch(number, stream) for each group in this order. Awaited groups have priority.
  // `upload` and `download` are the numbers of the groups that do the small transfers, or
  // groups.size() for none. used_once(bytes, count) tells whether only one node accesses so many
  // bytes.
  CapturedGraph(const std::vector<LaunchGroup>& groups,
                const std::function<void(std::size_t, cudaStream_t)>& launch, std::size_t upload,
                std::size_t download,
                const std::function<bool(const std::byte*, std::size_t)>& used_once);
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  std::int64_t nodes() const { return nodes_; }
  void launch(const HostTransfers& transfers, cudaStream_t stream) const;

 private:
  struct Destroy {
    void operator()(cudaGraph_t graph) const { static_cast<void>(cudaGraphDestroy(graph)); }
  };

  std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, Destroy> graph_;  // owns the nodes below
  cudaGraphExec_t exec_ = nullptr;
  const int made_in_ = detail::forks;
  std::int64_t nodes_ = 0;
  cudaGraphNode_t upload_node_ = nullptr, download_node_ = nullptr;
};

}  // namespace traingraph::cuda
