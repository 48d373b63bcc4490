#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "runtime/kernel.h"

// Kernels of the CUDA backend: addresses are device addresses, and work is enqueued on a stream.
namespace traingraph::cuda {

// What kernels need of the device they are made for: library handles are made once per device.
struct Context;  // context.h

inline constexpr std::size_t kAlignment = 16;  // of every address, in bytes

// A kernel's work as a part of a small program: so many tasks of one kind (small_tasks.h), each for
// a block, and their arguments.
struct SmallWork {
  int kind;
  int tasks;
  std::vector<std::byte> arguments;
};

// One op prepared for fixed shapes and layouts. launch() only enqueues on the stream: no
// allocation, no synchronisation, so that it can be captured into a CUDA graph. Every address is
// aligned to kAlignment bytes or more.
class Kernel {
 public:
  virtual ~Kernel();
  // Scratch that must be there while it runs; known before.
  virtual std::size_t workspace_bytes() const { return 0; }
  virtual void launch(traingraph::Pointers pointers, cudaStream_t stream) const = 0;
  // Whether it waits itself for what it needs, and may begin while that is still at work (early.h).
  virtual bool begins_early() const { return false; }
  // Whether its instructions are 9.0's own (warpgroups.h).
  virtual bool has_warpgroups() const { return false; }
  // The same work, to the same bits, for a small program; nothing where it is none for one.
  virtual std::optional<SmallWork> small(traingraph::Pointers) const { return std::nullopt; }
};

// One line of the table: how one op is supported, laid out and prepared.
struct KernelEntry {
  ir::Op op;
  Support (*supports)(const ir::Graph&, const ir::Node&);
  std::unique_ptr<Kernel> (*make)(const ir::Graph&, const ir::Node&, const Context&);
  // null: plain layouts only
  LayoutChoice (*layouts)(const ir::Graph&, const ir::Node&) = nullptr;
  // null: takes no epilogue
  bool (*fuses)(const ir::Graph&, const ir::Node&, const ir::ScalarList&,
                const std::vector<ir::ValueId>&) = nullptr;
};

// Every op's kernels, tried in order.
const std::vector<KernelEntry>& table();

}  // namespace traingraph::cuda
