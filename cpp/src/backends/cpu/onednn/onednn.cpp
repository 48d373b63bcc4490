// The oneDNN engine, thread counts of primitives, the kernel that runs a primitive, and the table
// of all oneDNN kernels.
#include "backends/cpu/onednn.h"

#include <omp.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <new>

#include <traingraph/errors.h>

#include "backends/cpu/isa_select.h"
#include "backends/cpu/onednn/kernel.h"
#include "runtime/threads/team.h"

namespace traingraph::cpu {
namespace {

// TRAINGRAPH_ISA lowers oneDNN with the hand-written loops: it then takes the kernels and layouts
// that it takes on a machine of that level. Has no effect after the first primitive.
void follow_instruction_level() {
  const std::string level = loops().level;
  if (level == "v2") dnnl_set_max_cpu_isa(dnnl_cpu_isa_sse41);
  if (level == "v3") dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
}

// Never destroyed: primitives may outlive static destruction order.
dnnl_stream_t shared_stream() {
  static const dnnl::stream& stream = *new dnnl::stream(onednn_engine());
  return stream.get();
}

class PrimitiveKernel final : public Kernel {
 public:
  PrimitiveKernel(const char* call, dnnl::primitive primitive, int threads)
      : call_(call),
        primitive_(std::move(primitive)),
        stream_(shared_stream()),
        threads_(threads) {}

  // Constants come after everything that has an address of its own.
  void add(int id, std::size_t pointer, const dnnl::memory::desc& desc) {
    add_constant(id, nullptr, desc);
    pointers_.push_back(pointer);
    bound_.push_back(nullptr);
  }

  void add_constant(int id, float* number, const dnnl::memory::desc& desc) {
    memories_.emplace_back(desc, onednn_engine(), number);
    arguments_.push_back({id, memories_.back().get()});
  }

  void add_scratchpad(std::size_t pointer, const dnnl::memory::desc& desc) {
    workspace_bytes_ = desc.get_size();
    if (workspace_bytes_ > 0) add(DNNL_ARG_SCRATCHPAD, pointer, desc);
  }

  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  void run(Pointers pointers) override {
    for (std::size_t i = 0; i < pointers_.size(); ++i) {
      std::byte* address = pointers[pointers_[i]];
      if (address == bound_[i]) continue;
      check(dnnl_memory_set_data_handle(arguments_[i].memory, address));
      bound_[i] = address;
    }
    expect_team(threads_);
    const ThreadScope scope(threads_);
    try {
      execute();
    } catch (const std::bad_alloc&) {
      // The library lists the arguments anew each time, before it computes. A step that has begun
      // to update is not to fail for want of those few bytes; nothing here adds to what is there.
      execute();
    }
  }

 private:
  void execute() {
    check(dnnl_primitive_execute(primitive_.get(), stream_, static_cast<int>(arguments_.size()),
                                 arguments_.data()));
  }

  void check(dnnl_status_t status) const {
    if (status != dnnl_success) fail_onednn(call_, status);
  }

  const char* call_;
  dnnl::primitive primitive_;
  dnnl_stream_t stream_;
  int threads_;
  std::size_t workspace_bytes_ = 0;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  std::vector<std::size_t> pointers_;  // which address each argument takes
  std::vector<std::byte*> bound_;      // the one it has
};

bool is_by_gemm(const dnnl::primitive_desc_base& description) {
  return std::string(description.impl_info_str()).find("gemm:") != std::string::npos;
}

// The library makes the code of its products when the first one runs. Without memory for it then
// they would fail for as long as the process lives.
void prepare_products() {
  static const bool are_prepared = [] {
    constexpr dnnl_dim_t kExtent = 32;
    const std::vector<float> zeros(kExtent * kExtent);
    std::vector<float> product(zeros.size());
    const ThreadScope scope(1);
    const dnnl_status_t status =
        dnnl_sgemm('N', 'N', kExtent, kExtent, kExtent, 1, zeros.data(), kExtent, zeros.data(),
                   kExtent, 0, product.data(), kExtent);
    if (status != dnnl_success) fail_onednn("matmul", status);
    return true;
  }();
  static_cast<void>(are_prepared);
}

}  // namespace

const dnnl::engine& onednn_engine() {
  static const dnnl::engine& engine = *[] {
    follow_instruction_level();
    return new dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

dnnl::primitive_attr onednn_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  return attributes;
}

void fail_onednn(const char* call, dnnl_status_t status) {
  // On a CPU the latter means that the code of a kernel found no memory.
  if (status == dnnl_out_of_memory || status == dnnl_runtime_error) {
    throw OutOfMemory("[" + std::string(call) +
                      "] expected oneDNN to find memory but it found none");
  }
  const char* texts[] = {"success",           "out of memory", "invalid arguments", "unimplemented",
                         "last impl reached", "runtime error", "not required"};
  const auto index = static_cast<std::size_t>(status);
  throw DeviceError("[" + std::string(call) + "] oneDNN failed with code " + std::to_string(index) +
                    ": " + (index < std::size(texts) ? texts[index] : "unknown"));
}

int library_threads(double nanoseconds) {
  if (omp_in_parallel() || omp_get_max_active_levels() < 1) return 1;
  return std::min(threads_for(nanoseconds), omp_get_thread_limit());
}

ThreadScope::ThreadScope(int count)
    : before_(omp_get_max_threads()), dynamic_before_(omp_get_dynamic() != 0) {
  if (count > 1 && omp_in_parallel()) {
    throw DeviceError("[run] expected a call outside OpenMP parallel regions but got one inside: " +
                      std::to_string(count) + " threads cannot start there; set_thread_count(1)");
  }
  if (before_ != count) omp_set_num_threads(count);
  if (dynamic_before_) omp_set_dynamic(0);
}

ThreadScope::~ThreadScope() {
  if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
  if (dynamic_before_) omp_set_dynamic(1);
}

std::unique_ptr<Kernel> make_primitive_kernel(const ir::Graph& graph, const ir::Node& node,
                                              const char* call, dnnl::primitive primitive,
                                              const dnnl::primitive_desc_base& description,
                                              const std::vector<Argument>& arguments, int threads) {
  if (is_by_gemm(description)) prepare_products();
  auto kernel = std::make_unique<PrimitiveKernel>(call, std::move(primitive), threads);
  for (const Argument& a : arguments) {
    if (a.value != ir::kNone) kernel->add(a.id, static_cast<std::size_t>(a.value), a.desc);
  }
  const auto index = static_cast<std::size_t>(&node - graph.nodes.data());
  kernel->add_scratchpad(graph.values.size() + index, description.scratchpad_desc());
  static float zero = 0;
  for (const Argument& a : arguments) {
    if (a.value == ir::kNone) kernel->add_constant(a.id, &zero, a.desc);
  }
  return kernel;
}

bool is_plain_loop(const dnnl::primitive_desc_base& description) {
  const std::string name = description.impl_info_str();
  return name.find("ref") != std::string::npos;
}

bool is_specialised(const dnnl::primitive_desc_base& description) {
  return !is_plain_loop(description) && !is_by_gemm(description);
}

namespace {

Support supports_types(const ir::Graph& graph, const ir::Node& node, bool halves) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  for (const std::vector<ir::ValueId>* operands : {&node.inputs, &node.outputs}) {
    for (ir::ValueId id : *operands) {
      const ir::Type& type = graph.type(id);
      const bool takes =
          type.data_type == DataType::kFloat32 || (halves && type.data_type == DataType::kBFloat16);
      if (!takes) {
        return Support::no(std::string("oneDNN: data type ") + name(type.data_type) +
                           (halves ? " (float32 and bfloat16)" : " (float32 only)"));
      }
      if (std::ranges::any_of(type.shape, [](std::int64_t extent) { return extent > kMost; })) {
        return Support::no("oneDNN: an extent of 2^31 or more");
      }
    }
  }
  return {};
}

}  // namespace

Support supports_operands(const ir::Graph& graph, const ir::Node& node) {
  return supports_types(graph, node, false);
}

Support supports_bfloat16(const ir::Graph& graph, const ir::Node& node) {
  onednn_engine();  // which follows the instruction level
  const int wanted = dnnl_cpu_isa_avx512_core_bf16;
  if ((dnnl_get_effective_cpu_isa() & wanted) != wanted) {
    return Support::no("oneDNN: no instructions for bfloat16");
  }
  return supports_types(graph, node, true);
}

const std::vector<KernelEntry>& onednn_entries() {
  static const std::vector<KernelEntry> entries = [] {
    std::vector<KernelEntry> all;
    for (const auto* part : {&convolution_entries(), &matmul_entries(), &reorder_entries()}) {
      all.insert(all.end(), part->begin(), part->end());
    }
    return all;
  }();
  return entries;
}

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

}  // namespace traingraph::cpu
