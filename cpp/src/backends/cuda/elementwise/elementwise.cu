// The op `elementwise` over any scalar list, compiled at run time or by an interpreter.
#include <numeric>
#include <vector>

#include "backends/cuda/elementwise/compiled_lists.h"
#include "backends/cuda/elementwise/list_kernel.h"
#include "backends/cuda/tasks/interpreted_list_tasks.h"

namespace traingraph::cuda {
namespace {

constexpr int kMaxInputs = 32, kMaxResults = 32, kMaxSteps = 224;

// The step that reads each register last; one past the last step for results.
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

// A list's steps with slots for registers. Registers share a slot once the earlier one has no
// further reader.
struct Prepared {
  std::vector<Step<double>> code;
  std::vector<std::int16_t> result_slots;
  int slots;
};

Prepared prepared(const ir::ScalarList& list) {
  Prepared program;
  const int steps = static_cast<int>(list.code.size());
  const std::vector<int> last = last_reads(list);
  std::vector<int> slot(last.size(), kPrevious);
  std::vector<int> owner;  // register per slot, -1 for a free slot
  for (int i = 0; i < list.inputs; ++i) {
    slot[static_cast<std::size_t>(i)] = i;
    owner.push_back(i);
  }
  for (int k = 0; k < steps; ++k) {
    const ir::Instruction& from = list.code[static_cast<std::size_t>(k)];
    const int self = list.inputs + k;
    auto read = [&](int reg) {
      const bool previous = reg == self - 1 && reg >= list.inputs;
      return reg < 0 || previous ? kPrevious : slot[static_cast<std::size_t>(reg)];
    };
    program.code.push_back({from.function, static_cast<std::int16_t>(read(from.x)),
                            static_cast<std::int16_t>(read(from.y)), -1, from.p, from.q});
    for (int& held : owner) {
      if (held >= 0 && last[static_cast<std::size_t>(held)] <= k) held = -1;
    }
    if (last[static_cast<std::size_t>(self)] <= k + 1 && k + 1 < steps) continue;
    auto place = std::find(owner.begin(), owner.end(), -1);
    if (place == owner.end()) place = owner.insert(owner.end(), self);
    *place = self;
    slot[static_cast<std::size_t>(self)] = static_cast<int>(place - owner.begin());
    program.code.back().to = static_cast<std::int16_t>(place - owner.begin());
  }
  for (int r : list.results) {
    program.result_slots.push_back(static_cast<std::int16_t>(slot[static_cast<std::size_t>(r)]));
  }
  program.slots = static_cast<int>(owner.size());
  return program;
}

template <class T, int kResults, int kSteps>
void write(const Prepared& from, int inputs, Program<T, kResults, kSteps>& to) {
  to.inputs = inputs;
  to.steps = static_cast<int>(from.code.size());
  to.results = static_cast<int>(from.result_slots.size());
  std::copy(from.result_slots.begin(), from.result_slots.end(), to.result_slots);
  for (std::size_t k = 0; k < from.code.size(); ++k) {
    const Step<double>& step = from.code[k];
    to.code[k] = {step.function,         step.x, step.y, step.to, static_cast<T>(step.p),
                  static_cast<T>(step.q)};
  }
}

template <class T, class Tasks, class Operands>
std::unique_ptr<Kernel> make_with(const ir::Graph& graph, const ir::Node& node,
                                  const std::vector<int>& input_of, const Prepared& program,
                                  const Operands& operands) {
  Tasks tasks{};
  write(program, static_cast<int>(input_of.size()), tasks.list);
  tasks.operands = operands;
  return make_list_kernel<T>(graph, node, input_of, tasks);
}

template <class T, int kSlots>
using LongListTasks =
    InterpretedListTasks<T, Broadcast, Packs<T>, kMaxInputs, kMaxResults, kMaxSteps, kSlots>;

template <class T>
std::unique_ptr<Kernel> make_list(const ir::Graph& graph, const ir::Node& node) {
  using Short = ShortListTasks<T>;
  const Prepared program = prepared(std::get<ir::ElementwiseAttributes>(node.attributes).list);
  std::vector<int> input_of(node.inputs.size());
  std::iota(input_of.begin(), input_of.end(), 0);
  const auto operands = operands_of<T, kMaxInputs>(graph, node, input_of);
  Flat<Short::kMostInputs> flat{};
  const bool is_short = graph.type(node.outputs[0]).elements() <= kMostSmallElements &&
                        input_of.size() <= Short::kMostInputs &&
                        program.slots <= Short::kMostSlots &&
                        program.code.size() <= Short::kMostSteps &&
                        program.result_slots.size() <= Short::kMostResults;
  if (is_short && flattened(operands, input_of.size(), flat)) {
    return make_with<T, Short>(graph, node, input_of, program, flat);
  }
  if (program.slots <= 8) {
    return make_with<T, LongListTasks<T, 8>>(graph, node, input_of, program, operands);
  }
  if (program.slots <= 32) {
    return make_with<T, LongListTasks<T, 32>>(graph, node, input_of, program, operands);
  }
  return make_with<T, LongListTasks<T, 256>>(graph, node, input_of, program, operands);
}

// float32 lists with 16-bit operands.
std::unique_ptr<Kernel> make_mixed(const ir::Graph& graph, const ir::Node& node) {
  using Tasks = InterpretedListTasks<float, MixedBroadcast, Packs<float>, kMaxInputs, kMaxResults,
                                     kMaxSteps, 256>;
  const Prepared program = prepared(std::get<ir::ElementwiseAttributes>(node.attributes).list);
  std::vector<int> input_of(node.inputs.size());
  std::iota(input_of.begin(), input_of.end(), 0);
  MixedBroadcast<kMaxInputs> operands{};
  static_cast<Broadcast<kMaxInputs>&>(operands) =
      operands_of<float, kMaxInputs>(graph, node, input_of);
  set_element_types(graph, node, input_of, operands);
  return make_with<float, Tasks>(graph, node, input_of, program, operands);
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context& context) {
  if (auto compiled = make_compiled_list(graph, node, context)) return compiled;
  if (is_mixed(graph, node)) return make_mixed(graph, node);
  return compute_type(graph, node) == DataType::kFloat64 ? make_list<double>(graph, node)
                                                         : make_list<float>(graph, node);
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const auto& list = std::get<ir::ElementwiseAttributes>(node.attributes).list;
  if (list.inputs > kMaxInputs) return Support::no("a list of more than 32 inputs");
  if (list.results.size() > kMaxResults) return Support::no("a list of more than 32 results");
  if (list.code.size() > kMaxSteps) return Support::no("a list of more than 224 steps");
  if (!is_mixed(graph, node)) return supports_floating(graph, node);
  if (graph.type(node.outputs[0]).rank() > 8) return Support::no("more than 8 axes");
  return {};
}

}  // namespace

std::vector<KernelEntry> elementwise_entries() {
  return {{ir::Op::elementwise, supports, make, layouts_as_given, nullptr}};
}

}  // namespace traingraph::cuda
