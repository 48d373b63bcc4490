#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "backends/cuda/cargo.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/units.h"
#include "ir/graph.h"

// A run recorded as a CUDA graph whose units wait only for what they need.
namespace traingraph::cuda {

// A stretch of memory that work reads or writes.
struct Access {
  std::size_t address;  // number in the table of addresses; of views, that of the value viewed
  std::size_t bytes;
  bool writes;
};

// What a node does, or what is done for several.
struct Work {
  ir::NodeId node;  // the last of them
  const Kernel* kernel;
  std::vector<Access> accesses;  // operands and workspace
  bool fills_memory;             // keeps the memory busy alone

  double cost() const;  // of time, roughly, in bytes of memory's traffic
};

// By node number; of views, without a kernel.
std::vector<Work> work_of(const ir::Graph& graph,
                          const std::vector<std::unique_ptr<Kernel>>& kernels);

// Matrix products so large that what runs beside them is worth an order of its own.
bool has_large_products(const ir::Graph& graph, const std::vector<Work>& by_node);

// Whether work reads or writes any of so many bytes.
bool touches(const Work& work, Pointers pointers, const std::byte* bytes, std::size_t count);

// Whether one writes what the other touches.
bool conflict(const std::vector<Access>& a, const std::vector<Access>& b, Pointers pointers);

// By position in the run: the positions before it that must be done, without those that others of
// them wait for. Two pieces of work keep their order where one writes what the other one touches,
// and where both fill the memory's time: side by side they only take the caches from each other.
std::vector<std::vector<std::size_t>> dependencies(const std::vector<Work>& run, Pointers pointers);

// By position: whether later work touches what it writes, or writes what it touches.
std::vector<bool> needed_later(const std::vector<Work>& run, Pointers pointers);

// A recorded run. What travels with it has nodes that are set for each launch.
class Captured {
 public:
  // Records launch(number, stream) for each unit, in this order; those that are awaited have
  // priority. `in` and `out` are the numbers of units that write and read few bytes, or those of
  // no unit. alone(bytes, count) tells whether only one node uses so many bytes.
  Captured(const std::vector<Unit>& units,
           const std::function<void(std::size_t, cudaStream_t)>& launch, std::size_t in,
           std::size_t out, const std::function<bool(const std::byte*, std::size_t)>& alone);
  ~Captured();
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  std::int64_t nodes() const { return nodes_; }
  void launch(const Cargo& cargo, cudaStream_t stream) const;

 private:
  struct Destroy {
    void operator()(cudaGraph_t graph) const { static_cast<void>(cudaGraphDestroy(graph)); }
  };

  std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, Destroy> graph_;  // whose nodes are set
  cudaGraphExec_t run_ = nullptr;
  std::int64_t nodes_ = 0;
  cudaGraphNode_t in_ = nullptr, out_ = nullptr;
};

}  // namespace traingraph::cuda
