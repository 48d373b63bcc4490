// The op `elementwise` over any scalar list: one kernel interprets it, 32 bytes of elements per
// thread, so that what it costs to decode an instruction is shared by all of them.
#include <vector>

#include "backends/cuda/elementwise.h"
#include "backends/cuda/node_kernel.h"

namespace traingraph::cuda {
namespace {

constexpr int kMaxInputs = 32, kMaxResults = 32, kMaxSteps = 224;
constexpr int kPrevious = -1;  // the register: what the step before computed

template <class T>
struct Step {
  ir::Scalar function;
  std::int16_t x, y;  // slots, or kPrevious
  std::int16_t to;    // a slot, or -1 where only the next step reads the result
  T p, q;
};

// A list ready to run: registers share slots once nothing reads them any more.
template <class T>
struct Program {
  int inputs, steps, results, slots;
  std::int16_t result_slots[kMaxResults];
  Step<T> code[kMaxSteps];
};

// Which step reads each register last; the step after the last for results.
std::vector<int> last_reads(const ir::ScalarList& list) {
  std::vector<int> last(static_cast<std::size_t>(list.registers()), -1);
  for (int k = 0; k < static_cast<int>(list.code.size()); ++k) {
    const ir::Instruction& step = list.code[static_cast<std::size_t>(k)];
    if (step.x >= 0) last[static_cast<std::size_t>(step.x)] = k;
    if (step.y >= 0) last[static_cast<std::size_t>(step.y)] = k;
  }
  for (int r : list.results) {
    last[static_cast<std::size_t>(r)] = static_cast<int>(list.code.size());
  }
  return last;
}

template <class T>
Program<T> prepared(const ir::ScalarList& list) {
  Program<T> program{};
  program.inputs = list.inputs;
  program.steps = static_cast<int>(list.code.size());
  program.results = static_cast<int>(list.results.size());
  const std::vector<int> last = last_reads(list);
  std::vector<int> slot(last.size(), kPrevious);
  std::vector<int> owner;  // register per slot, -1 for a free one
  for (int i = 0; i < list.inputs; ++i) {
    slot[static_cast<std::size_t>(i)] = i;
    owner.push_back(i);
  }
  for (int k = 0; k < program.steps; ++k) {
    const ir::Instruction& from = list.code[static_cast<std::size_t>(k)];
    const int self = list.inputs + k;
    auto read = [&](int reg) {
      const bool previous = reg == self - 1 && reg >= list.inputs;
      return reg < 0 || previous ? kPrevious : slot[static_cast<std::size_t>(reg)];
    };
    Step<T>& step = program.code[k];
    step = {from.function,
            static_cast<std::int16_t>(read(from.x)),
            static_cast<std::int16_t>(read(from.y)),
            -1,
            static_cast<T>(from.p),
            static_cast<T>(from.q)};
    for (int& held : owner) {
      if (held >= 0 && last[static_cast<std::size_t>(held)] <= k) held = -1;
    }
    if (last[static_cast<std::size_t>(self)] <= k + 1 && k + 1 < program.steps) continue;
    auto place = std::find(owner.begin(), owner.end(), -1);
    if (place == owner.end()) place = owner.insert(owner.end(), self);
    *place = self;
    slot[static_cast<std::size_t>(self)] = static_cast<int>(place - owner.begin());
    step.to = static_cast<std::int16_t>(place - owner.begin());
  }
  for (int r = 0; r < program.results; ++r) {
    program.result_slots[r] = static_cast<std::int16_t>(
        slot[static_cast<std::size_t>(list.results[static_cast<std::size_t>(r)])]);
  }
  program.slots = static_cast<int>(owner.size());
  return program;
}

template <class T>
using AnyArguments = Arguments<T, Program<T>, kMaxInputs, kMaxResults>;

// One function over all elements.
template <class T>
__device__ void evaluate(const Step<T>& step, const Packs<T>& x, const Packs<T>& y, Packs<T>& r) {
  switch (step.function) {
#define TRAINGRAPH_SCALAR(name, arity, value_expression, gradient_x, gradient_y) \
  case ir::Scalar::name:                                                         \
    _Pragma("unroll") for (int k = 0; k < kPacks; ++k) {                         \
      _Pragma("unroll") for (int v = 0; v < Pack<T>::kElements; ++v) {           \
        r.at[k].element[v] = ir::scalar::name<DeviceMath>::value(                \
            x.at[k].element[v], y.at[k].element[v], step.p, step.q);             \
      }                                                                          \
    }                                                                            \
    break;
#include "ir/scalar.def"
#undef TRAINGRAPH_SCALAR
  }
}

// Inputs are loaded two at a time, so that their ways through the memory overlap.
template <class T, int kSlots>
__global__ void __launch_bounds__(kThreads) run(const __grid_constant__ AnyArguments<T> a) {
  constexpr int kGroup = 2;
  Packs<T> slots[kSlots];
  for (int i = 0; i < a.list.inputs; i += kGroup) {
    Packs<T> loaded[kGroup];
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      if (i + k < a.list.inputs) loaded[k] = load(a.broadcast, a.inputs[i + k], i + k, a.count);
    }
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      if (i + k < a.list.inputs) slots[i + k] = loaded[k];
    }
  }
  Packs<T> previous = {};
  for (int k = 0; k < a.list.steps; ++k) {
    const Step<T>& step = a.list.code[k];
    const Packs<T> x = step.x == kPrevious ? previous : slots[step.x];
    const Packs<T> y = step.y == kPrevious ? previous : slots[step.y];
    evaluate(step, x, y, previous);
    if (step.to >= 0) slots[step.to] = previous;
  }
  for (int r = 0; r < a.list.results; ++r) {
    store_all(a.outputs[r], a.count, slots[a.list.result_slots[r]]);
  }
}

template <class T>
class Elementwise final : public NodeKernel {
 public:
  Elementwise(const ir::Graph& graph, const ir::Node& node, const Context&)
      : NodeKernel(graph, node) {
    const auto& list = std::get<ir::ElementwiseAttributes>(node.attributes).list;
    const Shape& shape = graph.type(node.outputs[0]).shape;
    arguments_.count = element_count(shape);
    arguments_.list = prepared<T>(list);
    std::vector<Shape> sources;
    for (ir::ValueId id : node.inputs) sources.push_back(graph.type(id).shape);
    arguments_.broadcast = Broadcast<kMaxInputs>(shape, sources, Pack<T>::kElements);
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (arguments_.count == 0) return;
    AnyArguments<T> a = arguments_;
    for (std::size_t i = 0; i < inputs_.size(); ++i) a.inputs[i] = in<T>(pointers, i);
    for (std::size_t r = 0; r < outputs_.size(); ++r) a.outputs[r] = out<T>(pointers, r);
    auto* const kernel = a.list.slots <= 8    ? run<T, 8>
                         : a.list.slots <= 32 ? run<T, 32>
                                              : run<T, 256>;
    kernel<<<blocks_of<T>(a.count), kThreads, 0, stream>>>(a);
    check_launch("elementwise");
  }

 private:
  AnyArguments<T> arguments_{};
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const auto& list = std::get<ir::ElementwiseAttributes>(node.attributes).list;
  if (list.inputs > kMaxInputs) return Support::no("a list of more than 32 inputs");
  if (list.results.size() > kMaxResults) return Support::no("a list of more than 32 results");
  if (list.code.size() > kMaxSteps) return Support::no("a list of more than 224 steps");
  return supports_floating(graph, node);
}

}  // namespace

std::vector<KernelEntry> elementwise_entries() {
  return {{ir::Op::elementwise, supports, make_floating<Elementwise>, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
