// The op `elementwise` over large tensors, as CUDA C++ that is written and compiled for its very
// list, shape and types. The functions are the text of ir/scalar.def.
#include "backends/cuda/elementwise/compiled_lists.h"

#include <array>
#include <bit>
#include <numeric>
#include <string>
#include <vector>

#include "backends/cuda/elementwise/list_kernel.h"
#include "backends/cuda/kernel/run_time_compiler.h"

namespace traingraph::cuda {
namespace {

constexpr int kMostOperands = 32;

struct Function {
  const char *name, *value;
};
constexpr Function kFunctions[] = {
#define TRAINGRAPH_SCALAR(name, arity, value_expression, gradient_x, gradient_y) \
  {#name, #value_expression},
#include "ir/scalar.def"
#undef TRAINGRAPH_SCALAR
};

#define TRAINGRAPH_TEXT(...) #__VA_ARGS__
#define TRAINGRAPH_TEXT_OF(x) TRAINGRAPH_TEXT(x)

// Types of elements in memory, and packs of kCount of them. Registers have T.
constexpr char kPrelude[] = R"(
struct bfloat16 { unsigned short bits; };
struct float16 { unsigned short bits; };
__device__ inline T widen(float x) { return x; }
__device__ inline T widen(double x) { return x; }
__device__ inline T widen(bfloat16 x) { return __uint_as_float((unsigned)x.bits << 16); }
__device__ inline T widen(float16 x) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
  return wide;
}
__device__ inline void narrow(float& to, T x) { to = x; }
__device__ inline void narrow(double& to, T x) { to = x; }
__device__ inline void narrow(bfloat16& to, T x) {
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"((float)x));
}
__device__ inline void narrow(float16& to, T x) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"((float)x));
}
template <class S, int kCount, int kBytes = sizeof(S) * kCount < 16 ? sizeof(S) * kCount : 16>
struct alignas(kBytes) Part { S of[kBytes / sizeof(S)]; };
template <int kCount, class S>
__device__ inline void load(const S* from, T* to) {
  using P = Part<S, kCount>;
  constexpr int kEach = sizeof(P) / sizeof(S);
#pragma unroll
  for (int k = 0; k < kCount / kEach; ++k) {
    const P part = reinterpret_cast<const P*>(from)[k];
#pragma unroll
    for (int v = 0; v < kEach; ++v) to[k * kEach + v] = widen(part.of[v]);
  }
}
template <int kCount, class S>
__device__ inline void store(S* to, const T* from) {
  using P = Part<S, kCount>;
  constexpr int kEach = sizeof(P) / sizeof(S);
#pragma unroll
  for (int k = 0; k < kCount / kEach; ++k) {
    P part;
#pragma unroll
    for (int v = 0; v < kEach; ++v) narrow(part.of[v], from[k * kEach + v]);
    reinterpret_cast<P*>(to)[k] = part;
  }
}
struct M {
)";

const char* element_name(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return "double";
    case DataType::kFloat16:
      return "float16";
    case DataType::kBFloat16:
      return "bfloat16";
    default:
      return "float";
  }
}

// The source of one node, in pieces.
class Source {
 public:
  Source(const ir::Graph& graph, const ir::Node& node)
      : graph_(graph),
        node_(node),
        list_(std::get<ir::ElementwiseAttributes>(node.attributes).list),
        is_double_(compute_type(graph, node) == DataType::kFloat64 && !is_mixed(graph, node)),
        count_(graph.type(node.outputs[0]).elements()) {
    std::vector<int> inputs(node.inputs.size());
    std::iota(inputs.begin(), inputs.end(), 0);
    operands_ = operands_of<float, kMostOperands>(graph, node, inputs);
    bool strided = false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      strided = strided || operands_.reading[i] == Reading::strided;
    }
    const std::int64_t last = strided ? operands_.extents[operands_.rank - 1].divisor : count_;
    pack_ = is_double_ ? 2 : (is_mixed(graph, node) ? 8 : 4);
    while (count_ % pack_ != 0 || last % pack_ != 0) pack_ /= 2;
    write(strided);
  }

  const std::string& text() const { return text_; }
  std::int64_t threads() const { return count_ / pack_; }

 private:
  static std::string number(std::int64_t n) { return std::to_string(n); }
  std::string constant(double value) const {
    if (is_double_) {
      return "__longlong_as_double(" + number(std::bit_cast<std::int64_t>(value)) + "ll)";
    }
    return "__int_as_float(" + number(std::bit_cast<std::int32_t>(static_cast<float>(value))) + ")";
  }
  static std::string reg(int at) {
    std::string name = at < 0 ? "T(0)" : "r";
    if (at >= 0) name += number(at);
    return name;
  }
  DataType type_of(ir::ValueId id) const { return graph_.type(id).data_type; }

  void write(bool strided) {
    text_ = std::string("typedef ") + (is_double_ ? "double" : "float") + " T;" + kPrelude;
#define TRAINGRAPH_TEXT_OF_MATH(name) \
  text_ += "  static __device__ T " #name "(T x) { return ::" #name "(x); }\n";
    TRAINGRAPH_MATH_OF_ONE(TRAINGRAPH_TEXT_OF_MATH)
#undef TRAINGRAPH_TEXT_OF_MATH
    text_ +=
        "  static __device__ T pow(T x, T y) { return ::pow(x, y); }\n"
        "  static __device__ T gelu_derivative(T x) { " TRAINGRAPH_TEXT_OF(
            TRAINGRAPH_GELU_DERIVATIVE) " }\n};\n";
    write_functions();
    text_ += "extern \"C\" __global__ void __launch_bounds__(" + number(kThreads) + ") list(";
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      text_ += std::string("const ") + element_name(type_of(node_.inputs[i])) + "* i" +
               std::to_string(i) + ", ";
    }
    for (std::size_t r = 0; r < node_.outputs.size(); ++r) {
      text_ += std::string(r > 0 ? ", " : "") + element_name(type_of(node_.outputs[r])) + "* o" +
               std::to_string(r);
    }
    const bool narrow = count_ < (std::int64_t{1} << 31);
    text_ += std::string(") {\n  typedef ") + (narrow ? "unsigned" : "unsigned long long") +
             " Index;\n  const Index first = (Index(blockIdx.x) * " + number(kThreads) +
             " + threadIdx.x) * " + number(pack_) + ";\n  if (first >= " + number(count_) +
             "u) return;\n";
    if (strided) write_axes();
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) write_load(static_cast<int>(i));
    write_steps();
    for (std::size_t r = 0; r < node_.outputs.size(); ++r) {
      const std::string name = std::to_string(r);
      text_ += "  store<" + number(pack_) + ">(o" + name + " + first, y" + name + ");\n";
    }
    text_ += "}\n";
  }

  // Each function that the list has, once.
  void write_functions() {
    std::array<bool, std::size(kFunctions)> written{};
    for (const ir::Instruction& step : list_.code) {
      const auto at = static_cast<std::size_t>(step.function);
      if (written.at(at)) continue;
      written.at(at) = true;
      text_ += std::string("__device__ inline T f_") + kFunctions[at].name +
               "(T x, T y, T p, T q) { return " + kFunctions[at].value + "; }\n";
    }
  }

  // The place of `first` along each axis.
  void write_axes() {
    text_ += "  Index rest = first;\n";
    for (int axis = operands_.rank - 1; axis >= 0; --axis) {
      const std::string extent = number(operands_.extents[axis].divisor);
      text_ +=
          "  const Index at" + number(axis) + " = rest % " + extent + "; rest /= " + extent + ";\n";
    }
  }

  void write_load(int i) {
    const std::string name = number(i), count = number(pack_);
    text_ += "  T a" + name + "[" + count + "];\n";
    const auto each = [&](const std::string& value) {
      text_ += "#pragma unroll\n  for (int v = 0; v < " + count + "; ++v) a" + name +
               "[v] = " + value + ";\n";
    };
    if (operands_.reading[i] == Reading::dense) {
      text_ += "  load<" + count + ">(i" + name + " + first, a" + name + ");\n";
      return;
    }
    if (operands_.reading[i] == Reading::one) return each("widen(i" + name + "[0])");
    const int last = operands_.rank - 1;
    std::string place = "0";
    bool is_aligned = true;
    for (int axis = 0; axis <= last; ++axis) {
      const std::int64_t stride = operands_.strides[i][axis];
      if (stride == 0) continue;
      place += " + at" + number(axis) + " * " + number(stride);
      if (axis < last && stride % pack_ != 0) is_aligned = false;
    }
    const std::int64_t step = operands_.strides[i][last];
    if (step == 1 && is_aligned) {
      text_ += "  load<" + count + ">(i" + name + " + (" + place + "), a" + name + ");\n";
    } else {
      each("widen(i" + name + "[" + place + " + v * " + number(step) + "])");
    }
  }

  void write_steps() {
    for (std::size_t r = 0; r < node_.outputs.size(); ++r) {
      text_ += "  T y" + std::to_string(r) + "[" + number(pack_) + "];\n";
    }
    text_ += "#pragma unroll\n  for (int v = 0; v < " + number(pack_) + "; ++v) {\n";
    for (int i = 0; i < list_.inputs; ++i) {
      text_ += "    const T r" + number(i) + " = a" + number(i) + "[v];\n";
    }
    for (std::size_t k = 0; k < list_.code.size(); ++k) {
      const ir::Instruction& step = list_.code[k];
      text_ += "    const T " + reg(list_.inputs + static_cast<int>(k)) + " = f_" +
               kFunctions[static_cast<std::size_t>(step.function)].name + "(" + reg(step.x) + ", " +
               reg(step.y) + ", " + constant(step.p) + ", " + constant(step.q) + ");\n";
    }
    for (std::size_t r = 0; r < list_.results.size(); ++r) {
      text_ += "    y" + std::to_string(r) + "[v] = " + reg(list_.results[r]) + ";\n";
    }
    text_ += "  }\n";
  }

  const ir::Graph& graph_;
  const ir::Node& node_;
  const ir::ScalarList& list_;
  bool is_double_;
  std::int64_t count_;
  int pack_ = 1;  // elements of a thread
  Broadcast<kMostOperands> operands_;
  std::string text_;
};

class CompiledList final : public NodeKernel {
 public:
  CompiledList(const ir::Graph& graph, const ir::Node& node, cudaKernel_t kernel,
               std::int64_t threads)
      : NodeKernel(graph, node), kernel_(kernel), blocks_(blocks_for(threads)) {}

  void launch(Pointers pointers, cudaStream_t stream) const override {
    std::array<const void*, 2 * kMostOperands> operands{};
    std::array<void*, 2 * kMostOperands> arguments{};
    std::size_t count = 0;
    const auto add = [&](const void* operand) {
      operands[count] = operand;
      arguments[count] = &operands[count];
      ++count;
    };
    for (std::size_t i = 0; i < inputs_.size(); ++i) add(in<std::byte>(pointers, i));
    for (std::size_t r = 0; r < outputs_.size(); ++r) add(out<std::byte>(pointers, r));
    check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel_), dim3(blocks_), dim3(kThreads),
                           arguments.data(), 0, stream),
          "elementwise");
  }

 private:
  cudaKernel_t kernel_;
  unsigned blocks_;
};

}  // namespace

std::unique_ptr<Kernel> make_compiled_list(const ir::Graph& graph, const ir::Node& node,
                                           const Context& context) {
  if (graph.type(node.outputs[0]).elements() <= kMostSmallElements) return nullptr;
  const Source source(graph, node);
  cudaKernel_t const kernel = compiled_kernel(source.text(), "list", context.device);
  if (kernel == nullptr) return nullptr;
  return std::make_unique<CompiledList>(graph, node, kernel, source.threads());
}

}  // namespace traingraph::cuda
