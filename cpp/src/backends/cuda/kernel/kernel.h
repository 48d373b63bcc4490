// The interface of the CUDA backend's kernels: device addresses, work enqueued on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "runtime/kernel.h"

namespace traingraph::cuda {

// Properties and library handles of a device, made once.
struct Context;   // context.h
class NcclRanks;  // distributed/nccl_ranks.h

inline constexpr std::size_t kAlignment = 16;  // of every address, in bytes

// A kernel's work as part of a megakernel: its kind (megakernel_tasks.h), its number of tasks, each
// for one block, and their arguments.
struct MegakernelWork {
  int kind;
  int tasks;
  std::vector<std::byte> arguments;
};

// One op, prepared for fixed shapes and layouts. launch() only enqueues on the stream, without
// allocation or synchronisation, so that it can be captured into a CUDA graph. Every address is
// aligned to kAlignment bytes or more.
class Kernel {
 public:
  virtual ~Kernel();
  // Bytes of scratch memory, known before the first run.
  virtual std::size_t workspace_bytes() const { return 0; }
  virtual void launch(traingraph::Pointers pointers, cudaStream_t stream) const = 0;
  // Whether the kernel uses programmatic dependent launch (dependent_launch.h): it may start while
  // its predecessors run, and waits for their data itself.
  virtual bool uses_dependent_launch() const { return false; }
  // Whether the kernel uses instructions of sm_90a (wgmma.h).
  virtual bool uses_wgmma() const { return false; }
  // Those whose sum it computes; null for any other kernel.
  virtual NcclRanks* ranks() const { return nullptr; }
  // The same work with the same bits for a megakernel; nothing if the kernel cannot be part of one.
  virtual std::optional<MegakernelWork> megakernel_work(traingraph::Pointers) const {
    return std::nullopt;
  }
};

// A row of the table: how one op is supported, laid out and prepared.
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

// The kernels of all ops, tried in order.
const std::vector<KernelEntry>& table();

}  // namespace traingraph::cuda
