#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

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

// A recorded run, and how many nodes it has.
struct Captured {
  cudaGraphExec_t run;
  std::int64_t nodes;
};

// Records launch(number, stream) for each unit, in this order; those that are awaited have
// priority.
Captured capture(const std::vector<Unit>& units,
                 const std::function<void(std::size_t, cudaStream_t)>& launch);

}  // namespace traingraph::cuda
