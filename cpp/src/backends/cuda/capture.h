#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "backends/cuda/cargo.h"
#include "backends/cuda/units.h"
#include "ir/graph.h"
#include "runtime/kernel.h"

// A run recorded as a CUDA graph whose units wait only for what they need.
namespace traingraph::cuda {

// A stretch of memory that a node reads or writes.
struct Access {
  std::size_t address;  // number in the table of addresses
  std::size_t bytes;
  bool writes;
};

// By node number.
struct Accesses {
  std::vector<std::vector<Access>> of;  // operands and workspace
  std::vector<bool> fills_memory;
  std::vector<double> costs;  // what a node takes, roughly, in bytes of memory's traffic
  // Matrix products so large that what runs beside them is worth an order of its own.
  bool has_large_products = false;
};

Accesses accesses_of(const ir::Graph& graph, const std::vector<std::size_t>& workspace_bytes);

// By position in the order: the positions before it that must be done, without those that others of
// them wait for. Two nodes keep their order where one writes what the other one touches, and where
// both fill the memory's time: side by side they only take the caches from each other.
std::vector<std::vector<std::size_t>> dependencies(const Accesses& accesses,
                                                   const ir::NodeId* order, std::size_t count,
                                                   Pointers pointers);

// By position: whether a later node touches what it writes, or writes what it touches.
std::vector<bool> needed_later(const Accesses& accesses, const ir::NodeId* order, std::size_t count,
                               Pointers pointers);

// A recorded run. What travels with it has nodes that are set for each launch.
class Captured {
 public:
  // Records launch(number, stream) for each unit, in this order; those that are awaited have
  // priority. `in` and `out` are the numbers of units that write and read few bytes, or those of
  // no unit.
  Captured(const std::vector<Unit>& units,
           const std::function<void(std::size_t, cudaStream_t)>& launch, std::size_t in,
           std::size_t out);
  ~Captured();
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  std::int64_t nodes() const { return nodes_; }
  void upload(cudaStream_t stream) const;
  void launch(const Cargo& cargo, cudaStream_t stream) const;

 private:
  cudaGraph_t graph_ = nullptr;  // whose nodes are set
  cudaGraphExec_t run_ = nullptr;
  std::int64_t nodes_ = 0;
  cudaGraphNode_t in_ = nullptr, out_ = nullptr;
};

}  // namespace traingraph::cuda
