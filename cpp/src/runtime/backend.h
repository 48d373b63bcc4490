// The interface of backends: supported ops, layouts, compilation to an `Executable`, memory. What
// some have beside it is in device_memory.h, foreign_streams.h and diagnostics.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "runtime/kernel.h"

namespace traingraph {

class DeviceMemory;
class Diagnostics;
class ForeignStreams;

// Bytes on their way to the host.
class PendingRead {
 public:
  virtual ~PendingRead() = default;
  // Copies them to `to` when they are there.
  virtual void take(void* to) = 0;
};

// A maximal run of ops handed to one backend, prepared.
class Executable {
 public:
  virtual ~Executable() = default;
  // Scratch of each node of the graph, by node number.
  virtual std::size_t workspace_bytes(ir::NodeId node) const = 0;
  // Results of up to so many bytes stay in places of their own for a whole schedule, so that nodes
  // which do not need each other may run side by side.
  virtual std::size_t unaliased_result_bytes() const { return 0; }
  // So do all results of a full step where they have no more bytes than this together, unless the
  // graph has a memory limit: where a place is shared, a node waits for the other value's readers.
  virtual std::size_t unaliased_step_bytes() const { return 0; }
  // Whether a sum over ranks goes on while the nodes behind it run, until one reads a result.
  virtual bool sums_go_on() const { return false; }
  // Raises DeviceError where the threads that a run takes cannot work for this one; call before
  // anything is done that a failure must not leave.
  virtual void expect_threads() const {}
  // Runs these nodes in this order. `seconds` (may be null) receives each node's time.
  virtual void run(const ir::NodeId* order, std::size_t count, Pointers pointers,
                   double* seconds) = 0;
  // What travels with the next run: the numbers of a step that its nodes read, and a value that it
  // leaves, for the host. A backend that returns false, or null, is asked for a write before the
  // run, or a read behind it, instead.
  virtual bool carry_in(std::byte*, const void*, std::size_t) { return false; }
  virtual std::unique_ptr<PendingRead> carry_out(const std::byte*, std::size_t) { return nullptr; }
  // Whether these bytes of a float value, in the backend's memory, are free of NaN and infinity.
  virtual bool all_finite(DataType type, const std::byte* bytes, std::size_t length) const = 0;
};

// Facts about a backend that the core decides by.
struct Traits {
  // What addresses within its memory have to be a multiple of, for its kernels to work on them.
  std::size_t alignment = 1;
  // False: run() computes nothing, so there is nothing to read.
  bool computes = true;
  // Whether it has kernels of a library under their own names (Op::named_kernel).
  bool named_kernels = false;
  // Whether its batch norm in float32 and float64 may count the first rows alone. On the host's
  // memory every backend's may.
  bool counts_rows = false;
  // Whether its attention reads queries, keys and values that are one product's columns.
  bool joins_projections = false;
  // Of arrays that ranks add at once: so many that a message's time is that of its bytes.
  std::size_t bucket_bytes = std::size_t{4} << 20;
};

// Devices, memory and kernels of one kind. A backend whose kernels cannot work on host memory has
// one object per device, runs everything in one order, and copies between the memories.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  // Whether it can run here; the reason names what is missing.
  virtual Support available() const { return {}; }
  virtual std::vector<std::string> devices() const = 0;
  virtual const Traits& traits() const;

  // Whether this application has a kernel.
  virtual Support supports(const ir::Graph& graph, const ir::Node& node) const = 0;
  // Whether `producer` takes this list as its epilogue (inputs beyond the first in `extra`).
  virtual bool fuses(const ir::Graph& graph, const ir::Node& producer, const ir::ScalarList& list,
                     const std::vector<ir::ValueId>& extra) const = 0;
  // The layouts this application's kernel wants, given those its inputs have now. The result has
  // one entry per operand.
  virtual LayoutChoice layouts(const ir::Graph& graph, const ir::Node& node) const = 0;
  // A graph that is fused and has its layouts, written for kernels that this backend alone has.
  virtual ir::Graph lowered(ir::Graph graph) const { return graph; }
  // Prepares the nodes. A value of the graph that is neither `keep` nor `writes` is read by nodes
  // of the graph alone.
  virtual std::unique_ptr<Executable> compile(const ir::Graph& graph,
                                              const std::vector<ir::NodeId>& nodes) const = 0;
  // 64-byte aligned, zeroed. Raises OutOfMemory. Freed by the deleter.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) const = 0;

  // Copies into and out of its memory. Null where that is the host's: arrays are then used in
  // place, and run() returns when its work is done.
  virtual const DeviceMemory* memory() const { return nullptr; }
  // What other libraries on the same GPU need of it; null where there is no GPU they could share.
  virtual const ForeignStreams* streams() const { return nullptr; }
  // What it measures; null where it measures nothing.
  virtual const Diagnostics* diagnostics() const { return nullptr; }
};

// The backends that are built in, best first.
const std::vector<const Backend*>& backends();
// One that is built in, or "cuda" from its plugin. Raises InvalidArgument listing the names, or
// DeviceError when it cannot run here or has no device of this index.
const Backend& backend_named(const std::string& name, int index = 0);

}  // namespace traingraph
