// The op `elementwise` over the lists that are compiled in.
#include <string_view>
#include <vector>

#include "backends/cuda/list_kernel.h"
#include "backends/cuda/list_tasks.h"

namespace traingraph::cuda {
namespace {

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

// Calls f with each list until one says that it did.
template <class F>
bool any_list(F&& f) {
#define TRAINGRAPH_LIST(name) \
  if (f(lists::name{})) return true;
  TRAINGRAPH_CUDA_LISTS(TRAINGRAPH_LIST)
#undef TRAINGRAPH_LIST
  return false;
}

const ir::ScalarList& list_of(const ir::Node& node) {
  return std::get<ir::ElementwiseAttributes>(node.attributes).list;
}

// Lists over numbers of a step are updates: all their other operands are dense.
template <class List>
constexpr bool kNeedsFlat = std::string_view(List::kinds).find('s') != std::string_view::npos;

template <class List>
bool takes(const ir::Graph& graph, const ir::Node& node) {
  const std::vector<int> input_of = paired<List>(list_of(node));
  if (input_of.empty()) return false;
  Flat<kInputsOf<List>> flat;
  const bool needs_flat = kNeedsFlat<List> || is_mixed(graph, node);
  return !needs_flat || flattened(operands_of<float, kInputsOf<List>>(graph, node, input_of),
                                  input_of.size(), flat);
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (compute_type(graph, node) != DataType::kFloat32 && !is_mixed(graph, node)) {
    return Support::no("frequent lists are compiled for float32");
  }
  const bool found = any_list([&](auto list) { return takes<decltype(list)>(graph, node); });
  return found ? Support() : Support::no("no frequent list");
}

template <class Tasks, class Operands>
std::unique_ptr<Kernel> make_with(const ir::Graph& graph, const ir::Node& node,
                                  const std::vector<int>& input_of, const Operands& operands) {
  Tasks tasks{};
  const auto& code = list_of(node).code;
  for (std::size_t k = 0; k < code.size(); ++k) {
    tasks.list.p[k] = static_cast<float>(code[k].p);
    tasks.list.q[k] = static_cast<float>(code[k].q);
  }
  tasks.operands = operands;
  return make_list_kernel<float>(graph, node, input_of, tasks);
}

template <class List>
std::unique_ptr<Kernel> make_list(const ir::Graph& graph, const ir::Node& node) {
  const std::vector<int> input_of = paired<List>(list_of(node));
  const auto operands = operands_of<float, kInputsOf<List>>(graph, node, input_of);
  if (is_mixed(graph, node)) {
    MixedFlat<kInputsOf<List>> flat;
    flattened(operands, input_of.size(), flat);
    set_cells(graph, node, input_of, flat);
    if (graph.type(node.outputs[0]).elements() <= kMostSmallElements) {
      return make_with<SmallMixedListTasks<List>>(graph, node, input_of, flat);
    }
    return make_with<MixedListTasks<List>>(graph, node, input_of, flat);
  }
  Flat<kInputsOf<List>> flat;
  if (flattened(operands, input_of.size(), flat)) {
    if (graph.type(node.outputs[0]).elements() <= kMostSmallElements) {
      return make_with<SmallListTasks<List>>(graph, node, input_of, flat);
    }
    return make_with<FlatListTasks<List>>(graph, node, input_of, flat);
  }
  if constexpr (!kNeedsFlat<List>) {
    return make_with<StridedListTasks<List>>(graph, node, input_of, operands);
  }
  return nullptr;
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context&) {
  std::unique_ptr<Kernel> kernel;
  any_list([&](auto list) {
    using List = decltype(list);
    if (!takes<List>(graph, node)) return false;
    kernel = make_list<List>(graph, node);
    return true;
  });
  return kernel;
}

}  // namespace

std::vector<KernelEntry> frequent_entries() {
  return {{ir::Op::elementwise, supports, make, layouts_as_given, nullptr}};
}

}  // namespace traingraph::cuda
