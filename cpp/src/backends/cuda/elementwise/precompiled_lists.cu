// The op `elementwise` over precompiled scalar lists.
#include <vector>

#include "backends/cuda/elementwise/list_kernel.h"
#include "backends/cuda/elementwise/precompiled_lists.h"

namespace traingraph::cuda {
namespace {

const ir::ScalarList& list_of(const ir::Node& node) {
  return std::get<ir::ElementwiseAttributes>(node.attributes).list;
}

template <class List>
bool takes(const ir::Graph& graph, const ir::Node& node) {
  const std::vector<int> input_of = input_mapping<List>(list_of(node));
  if (input_of.empty()) return false;
  Flat<kInputsOf<List>> flat;
  const bool needs_flat = kIsUpdate<List> || is_mixed(graph, node);
  return !needs_flat || flattened(operands_of<float, kInputsOf<List>>(graph, node, input_of),
                                  input_of.size(), flat);
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (compute_type(graph, node) != DataType::kFloat32 && !is_mixed(graph, node)) {
    return Support::no("precompiled lists take float32");
  }
  const bool found =
      any_precompiled_list([&](auto list) { return takes<decltype(list)>(graph, node); });
  return found ? Support() : Support::no("not a precompiled list");
}

template <class List, class Tasks, class Operands>
std::unique_ptr<Kernel> make_with(const ir::Graph& graph, const ir::Node& node,
                                  const std::vector<int>& input_of, const Operands& operands) {
  Tasks tasks{};
  tasks.list = immediates<List>(list_of(node));
  tasks.operands = operands;
  return make_list_kernel<float>(graph, node, input_of, tasks);
}

template <class List>
std::unique_ptr<Kernel> make_list(const ir::Graph& graph, const ir::Node& node) {
  const std::vector<int> input_of = input_mapping<List>(list_of(node));
  const auto operands = operands_of<float, kInputsOf<List>>(graph, node, input_of);
  if (is_mixed(graph, node)) {
    MixedFlat<kInputsOf<List>> flat;
    flattened(operands, input_of.size(), flat);
    set_element_types(graph, node, input_of, flat);
    if (graph.type(node.outputs[0]).elements() <= kMostSmallElements) {
      return make_with<List, SmallMixedListTasks<List>>(graph, node, input_of, flat);
    }
    return make_with<List, MixedListTasks<List>>(graph, node, input_of, flat);
  }
  Flat<kInputsOf<List>> flat;
  if (flattened(operands, input_of.size(), flat)) {
    if (graph.type(node.outputs[0]).elements() <= kMostSmallElements) {
      return make_with<List, SmallListTasks<List>>(graph, node, input_of, flat);
    }
    return make_with<List, FlatListTasks<List>>(graph, node, input_of, flat);
  }
  if constexpr (!kIsUpdate<List>) {
    return make_with<List, StridedListTasks<List>>(graph, node, input_of, operands);
  }
  return nullptr;
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context&) {
  std::unique_ptr<Kernel> kernel;
  any_precompiled_list([&](auto list) {
    using List = decltype(list);
    if (!takes<List>(graph, node)) return false;
    kernel = make_list<List>(graph, node);
    return true;
  });
  return kernel;
}

}  // namespace

std::vector<KernelEntry> precompiled_list_entries() {
  return {{ir::Op::elementwise, supports, make, layouts_as_given, nullptr}};
}

}  // namespace traingraph::cuda
