// What the oneDNN kernels share: checked calls, thread counts, layouts, epilogues and the kernel
// around a primitive. Included by them alone.
#pragma once

#include <dnnl.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/parallel.h"
#include "runtime/memory/host_backend.h"
#include "runtime/threads/fork_guard.h"

namespace traingraph::cpu {

// --- the library -------------------------------------------------------------------------------

const dnnl::engine& onednn_engine();

// Attributes every primitive starts from: the scratchpad is ours, float32 stays float32.
dnnl::primitive_attr onednn_attributes();

// Raises what a failed call means here: OutOfMemory, or DeviceError with call and status.
[[noreturn]] void fail_onednn(const char* call, dnnl_status_t status);

// Runs `make` and turns oneDNN's exceptions into ours. The library has locks of its own.
template <class F>
auto guarded(const char* call, F&& make) {
  const LibraryCall calling;
  try {
    return make();
  } catch (const dnnl::error& error) {
    fail_onednn(call, error.status);
  }
}

// --- threads -----------------------------------------------------------------------------------

// oneDNN divides work by the number of threads it expects, and where OpenMP gives fewer it computes
// part of the result and says nothing. So the number is one that OpenMP will give.

// Threads for work that takes one thread about this long. A function of the shape and of the
// process's settings alone: the library's sums depend on it.
int library_threads(double nanoseconds);
// Nanoseconds one thread takes for this much arithmetic.
inline double nanoseconds_to_compute(double operations) { return operations / 100; }

// Within it OpenMP regions of this thread have exactly `count` threads. A primitive is created and
// run under the same count. Raises DeviceError for more than one inside a parallel region.
class ThreadScope {
 public:
  explicit ThreadScope(int count);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
  bool dynamic_before_;
};

// --- layouts -----------------------------------------------------------------------------------

// A tensor in a layout, float32 or bfloat16; nothing where oneDNN cannot say it.
std::optional<dnnl::memory::desc> describe(const Shape& shape, const ir::Layout& layout,
                                           DataType type = DataType::kFloat32);
// The layout that lies in memory exactly as the descriptor says; nothing where there are gaps,
// offsets or extra data.
std::optional<ir::Layout> layout_of(const dnnl::memory::desc& desc);
// The shape's descriptor for queries: oneDNN chooses.
dnnl::memory::desc describe_any(const Shape& shape, DataType type = DataType::kFloat32);
// Dense with these strides, in elements.
dnnl::memory::desc describe_strided(const Shape& shape, const Shape& strides,
                                    DataType type = DataType::kFloat32);

// --- epilogues ---------------------------------------------------------------------------------

// A list that oneDNN runs inside a primitive: a bias, then at most one function.
struct Epilogue {
  bool bias = false;
  bool relu = false;
  std::optional<dnnl::algorithm> function;  // another one
  float alpha = 0;

  bool has_function() const { return relu || function.has_value(); }
  // Relu as a parametric relu of slope 0, which costs the same and lets NaN through; oneDNN's own
  // relu turns NaN into 0 and so hides a run that has diverged. Kernels without it take the own
  // one.
  void append_function(dnnl::post_ops& operations, bool parametric) const;
};
// Nothing where the list is something else.
std::optional<Epilogue> epilogue_of(const ir::ScalarList& list);

// --- kernels -----------------------------------------------------------------------------------

// An operand of a primitive: DNNL_ARG_…, the value it reads or writes, and how that lies there.
struct Argument {
  int id;
  ir::ValueId value;
  dnnl::memory::desc desc;
};
// The slope of a parametric relu after a result of this rank: a constant, so it names no value.
Argument relu_slope(std::size_t rank);

// `primitive` comes from `description`; both are made under a ThreadScope of `threads`.
std::unique_ptr<Kernel> make_primitive_kernel(const ir::Graph& graph, const ir::Node& node,
                                              const char* call, dnnl::primitive primitive,
                                              const dnnl::primitive_desc_base& description,
                                              const std::vector<Argument>& arguments, int threads);

// Whether oneDNN has more than plain loops or a general matrix product for it.
bool is_specialised(const dnnl::primitive_desc_base& description);
bool is_plain_loop(const dnnl::primitive_desc_base& description);

// Whether every operand is float32, with extents that its kernels can count: they do so in int, and
// divide by what a larger one has become.
Support supports_operands(const ir::Graph& graph, const ir::Node& node);
// The same where some are bfloat16, which the machine has to multiply by instructions of its own.
Support supports_bfloat16(const ir::Graph& graph, const ir::Node& node);

// Whether it is a gradient of weights over more samples than one primitive may add up, and the
// kernel that adds them up in parts; `make` makes the one of a part. In samples_in_parts.cpp.
using MakeKernel = std::unique_ptr<Kernel> (*)(const ir::Graph&, const ir::Node&);
bool has_many_samples(const ir::Graph& graph, const ir::Node& node);
std::unique_ptr<Kernel> make_in_parts(const ir::Graph& graph, const ir::Node& node,
                                      MakeKernel make);

// One file each.
const std::vector<KernelEntry>& convolution_entries();
const std::vector<KernelEntry>& matmul_entries();
const std::vector<KernelEntry>& reorder_entries();

}  // namespace traingraph::cpu
