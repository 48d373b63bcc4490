// The lists of ir/frequent_lists.h, one kernel each: every register of a list is one of the
// thread's.
#include <cstring>
#include <span>
#include <utility>

#include "backends/cuda/elementwise.h"
#include "backends/cuda/node_kernel.h"
#include "ir/frequent_lists.h"

namespace traingraph::cuda {
namespace {

// What stands alone more often here than on a CPU.
struct Relu {
  static constexpr char kinds[] = "v";
  static constexpr ir::FrequentStep steps[] = {{ir::Scalar::relu, 0}};
  static constexpr int results[] = {1};
};
struct ReluGradient {
  static constexpr char kinds[] = "vv";
  static constexpr ir::FrequentStep steps[] = {{ir::Scalar::relu_gradient, 0, 1}};
  static constexpr int results[] = {2};
};
struct Add {
  static constexpr char kinds[] = "vv";
  static constexpr ir::FrequentStep steps[] = {{ir::Scalar::add, 0, 1}};
  static constexpr int results[] = {2};
};

template <class List>
constexpr int kInputsOf = static_cast<int>(sizeof(List::kinds)) - 1;
template <class List>
constexpr int kStepsOf = static_cast<int>(std::size(List::steps));
template <class List>
constexpr int kResultsOf = static_cast<int>(std::size(List::results));

// A list's numbers p and q, step by step.
template <class T, int kSteps>
struct Immediates {
  T p[kSteps], q[kSteps];
};

template <class T, class List>
using ListArguments =
    Arguments<T, Immediates<T, kStepsOf<List>>, kInputsOf<List>, kResultsOf<List>>;

// Computes register kInputs + k.
template <class T, class List, int k>
__device__ void step(Packs<T>* registers, const ListArguments<T, List>& a) {
  constexpr ir::FrequentStep s = List::steps[k];
  constexpr int x = s.x < 0 ? 0 : s.x, y = s.y < 0 ? 0 : s.y;
#pragma unroll
  for (int pack = 0; pack < kPacks; ++pack) {
#pragma unroll
    for (int v = 0; v < Pack<T>::kElements; ++v) {
      registers[kInputsOf<List> + k].at[pack].element[v] = ir::scalar::evaluate<DeviceMath>(
          s.function, registers[x].at[pack].element[v], registers[y].at[pack].element[v],
          a.list.p[k], a.list.q[k]);
    }
  }
}

// Writes result r.
template <class T, class List, int r>
__device__ void put(const Packs<T>* registers, const ListArguments<T, List>& a) {
  constexpr int from = List::results[r];
  store_all(a.outputs[r], a.count, registers[from]);
}

template <class T, class List>
__global__ void __launch_bounds__(kThreads)
    run_list(const __grid_constant__ ListArguments<T, List> a) {
  constexpr int kInputs = kInputsOf<List>;
  Packs<T> registers[kInputs + kStepsOf<List>];
#pragma unroll
  for (int i = 0; i < kInputs; ++i) registers[i] = load(a.broadcast, a.inputs[i], i, a.count);
  [&]<std::size_t... k>(std::index_sequence<k...>) {
    (step<T, List, static_cast<int>(k)>(registers, a), ...);
  }(std::make_index_sequence<kStepsOf<List>>());
  [&]<std::size_t... r>(std::index_sequence<r...>) {
    (put<T, List, static_cast<int>(r)>(registers, a), ...);
  }(std::make_index_sequence<kResultsOf<List>>());
}

// Pairs the inputs of both lists while walking them side by side; empty when they differ.
// Element i: which input of `list` is the compiled one's input i.
template <class List>
std::vector<int> paired(const ir::ScalarList& list) {
  constexpr int kInputs = kInputsOf<List>;
  if (list.inputs != kInputs || list.code.size() != std::size(List::steps) ||
      list.results.size() != std::size(List::results)) {
    return {};
  }
  std::vector<int> input_of(kInputs, -1);
  auto same = [&](int compiled, int other) {
    if (compiled < 0 || other < 0) return compiled == other;
    if (compiled >= kInputs || other >= kInputs) return compiled == other;
    int& slot = input_of[static_cast<std::size_t>(compiled)];
    if (slot < 0) slot = other;
    return slot == other;
  };
  for (std::size_t k = 0; k < list.code.size(); ++k) {
    const ir::FrequentStep& compiled = List::steps[k];
    const ir::Instruction& code = list.code[k];
    if (compiled.function != code.function || !same(compiled.x, code.x) ||
        !same(compiled.y, code.y)) {
      return {};
    }
  }
  for (std::size_t r = 0; r < list.results.size(); ++r) {
    if (!same(List::results[r], list.results[r])) return {};
  }
  for (int input : input_of) {
    if (input < 0) return {};
  }
  return input_of;
}

template <class T, class List>
class Frequent final : public NodeKernel {
 public:
  Frequent(const ir::Graph& graph, const ir::Node& node, const std::vector<int>& input_of)
      : NodeKernel(graph, node) {
    const auto& list = std::get<ir::ElementwiseAttributes>(node.attributes).list;
    const Shape& shape = graph.type(node.outputs[0]).shape;
    arguments_.count = element_count(shape);
    std::vector<Shape> sources;
    for (std::size_t i = 0; i < input_of.size(); ++i) {
      inputs_[i] = node.inputs[static_cast<std::size_t>(input_of[i])];
      sources.push_back(graph.type(inputs_[i]).shape);
    }
    arguments_.broadcast = Broadcast<kInputsOf<List>>(shape, sources, Pack<T>::kElements);
    for (std::size_t k = 0; k < list.code.size(); ++k) {
      arguments_.list.p[k] = static_cast<T>(list.code[k].p);
      arguments_.list.q[k] = static_cast<T>(list.code[k].q);
    }
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (arguments_.count == 0) return;
    ListArguments<T, List> a = arguments_;
    for (std::size_t i = 0; i < inputs_.size(); ++i) a.inputs[i] = in<T>(pointers, i);
    for (std::size_t r = 0; r < outputs_.size(); ++r) a.outputs[r] = out<T>(pointers, r);
    run_list<T, List><<<blocks_of<T>(a.count), kThreads, 0, stream>>>(a);
    check_launch("elementwise, a frequent list");
  }

 private:
  ListArguments<T, List> arguments_{};
};

// Calls f with each list until one says that it did.
template <class F>
bool any_list(F&& f) {
  if (f(Relu()) || f(ReluGradient()) || f(Add())) return true;
#define TRAINGRAPH_LIST(name) \
  if (f(ir::frequent::name{})) return true;
  TRAINGRAPH_FREQUENT_LISTS(TRAINGRAPH_LIST)
#undef TRAINGRAPH_LIST
  return false;
}

const ir::ScalarList& list_of(const ir::Node& node) {
  return std::get<ir::ElementwiseAttributes>(node.attributes).list;
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (compute_type(graph, node) != DataType::kFloat32) {
    return Support::no("frequent lists are compiled for float32");
  }
  const bool found =
      any_list([&](auto list) { return !paired<decltype(list)>(list_of(node)).empty(); });
  return found ? supports_floating(graph, node) : Support::no("no frequent list");
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context&) {
  std::unique_ptr<Kernel> kernel;
  any_list([&](auto list) {
    using List = decltype(list);
    const std::vector<int> input_of = paired<List>(list_of(node));
    if (input_of.empty()) return false;
    kernel = std::make_unique<Frequent<float, List>>(graph, node, input_of);
    return true;
  });
  return kernel;
}

}  // namespace

std::vector<KernelEntry> frequent_entries() {
  return {{ir::Op::elementwise, supports, make, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
