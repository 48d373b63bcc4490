#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "runtime/kernel.h"

namespace traingraph {

// The most that is worth a late read: it comes in the shadow of what was enqueued before.
inline constexpr std::size_t kMostLateBytes = 256;

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
  virtual std::size_t apart_bytes() const { return 0; }
  // So do all results of a full step where they have no more bytes than this together, unless the
  // graph has a memory limit: where a place is shared, a node waits for the other value's readers.
  virtual std::size_t roomy_bytes() const { return 0; }
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

// What a device was asked to do since the process started.
struct DeviceCounters {
  std::int64_t launches = 0;         // of kernels one by one, or of a captured run as a whole
  std::int64_t captured = 0;         // kernels, copies and fills in the runs captured so far
  std::int64_t warpgroups = 0;       // of both, kernels of instructions that 9.0 alone has
  std::int64_t allocations = 0;      // blocks asked of the driver
  std::int64_t allocated_bytes = 0;  // handed out and not got back
  std::int64_t copies_in = 0;        // from host memory
  std::int64_t copies_out = 0;       // to host memory
  std::int64_t copies_within = 0;
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
  // Whether this application has a kernel.
  virtual Support supports(const ir::Graph& graph, const ir::Node& node) const = 0;
  // Whether it has kernels of a library under their own names (Op::named_kernel).
  virtual bool has_named_kernels() const { return false; }
  // Whether one of these, which it has, is to show first that it computes what its ops do.
  virtual bool is_on_trial(const ir::Node&) const { return false; }
  // Whether `producer` takes this list as its epilogue (inputs beyond the first in `extra`).
  virtual bool fuses(const ir::Graph& graph, const ir::Node& producer, const ir::ScalarList& list,
                     const std::vector<ir::ValueId>& extra) const = 0;
  // Whether its kernel of this batch_norm or batch_norm_gradient can have signs
  // (ir::BatchNormAttributes) and gains by them.
  virtual bool has_signs(const ir::Graph&, const ir::Node&) const { return false; }
  // The layouts this application's kernel wants, given those its inputs have now. The result has
  // one entry per operand.
  virtual LayoutChoice layouts(const ir::Graph& graph, const ir::Node& node) const = 0;
  // Prepares the nodes. A value of the graph that is neither `keep` nor `writes` is read by nodes
  // of the graph alone.
  virtual std::unique_ptr<Executable> compile(const ir::Graph& graph,
                                              const std::vector<ir::NodeId>& nodes) const = 0;
  // 64-byte aligned, zeroed. Raises OutOfMemory. Freed by the deleter.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) const = 0;
  // What addresses within that have to be a multiple of, for its kernels to work on them.
  virtual std::size_t alignment() const { return 1; }
  // False: run() computes nothing, so there is nothing to read.
  virtual bool computes() const { return true; }

  // Whether its memory is the host's: arrays are then used in place, and run() returns when its
  // work is done.
  virtual bool uses_host_memory() const { return true; }
  // Copies into, out of and within its memory, ordered after everything before. Host bytes are free
  // again, or there, when the call returns.
  virtual void write(std::byte* to, const void* from, std::size_t bytes) const;
  virtual void read(void* to, const std::byte* from, std::size_t bytes) const;
  // Enqueues a read behind everything before, and returns without waiting. Null where it cannot,
  // and maybe for more than kMostLateBytes: then read() has to do.
  virtual std::unique_ptr<PendingRead> read_later(const std::byte* from, std::size_t bytes) const;
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) const;
  virtual void clear(std::byte* at, std::size_t bytes) const;
  // The index of the GPU whose memory this is, or -1. What follows is for those alone.
  virtual int gpu() const { return -1; }
  virtual std::string uuid() const { return {}; }
  // The stream that everything is ordered on; another one that from now on waits for it, or that
  // it waits for.
  virtual std::uintptr_t stream() const { return 0; }
  virtual void order_before(std::uintptr_t) const {}
  virtual void order_after(std::uintptr_t) const {}
  // What the device's context and libraries hold in its memory so far, measured.
  virtual std::size_t context_bytes() const { return 0; }
  // Returns when everything before is done. Raises DeviceError where some of it has failed.
  virtual void finish() const {}
  // Seconds that its device has worked on what is done, by the device's own clock; negative where
  // nobody measures that.
  virtual double measured_seconds() const { return -1; }
  virtual DeviceCounters counters() const { return {}; }
  // Launches the captured run that was launched last so many times again, one after another, and
  // returns the seconds that each took on the device; 0 when there is none. For measurements.
  virtual double repeat_last_run(int) const { return 0; }
};

// The backends that are built in, best first.
const std::vector<const Backend*>& backends();
// One that is built in, or "cuda" from its plugin. Raises InvalidArgument listing the names, or
// DeviceError when it cannot run here or has no device of this index.
const Backend& backend_named(const std::string& name, int index = 0);

}  // namespace traingraph
