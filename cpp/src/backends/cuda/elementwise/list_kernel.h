// The kernel class of the op `elementwise`, for precompiled and interpreted scalar lists. For .cu
// files only.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "backends/cuda/convolution/layouts.h"
#include "backends/cuda/kernel/node_kernel.h"
#include "backends/cuda/tasks/megakernel_tasks.h"
#include "backends/cuda/tasks/mixed_precision.h"

namespace traingraph::cuda {

// The operands of a list; input i of the list is input input_of[i] of the node. Operands that vary
// along several axes of the result have its layout.
template <class T, int kOperands>
Broadcast<kOperands> operands_of(const ir::Graph& graph, const ir::Node& node,
                                 const std::vector<int>& input_of) {
  const ir::Layout layout = layouts_as_given(graph, node).outputs[0];
  std::vector<Shape> sources;
  for (int input : input_of) {
    const ir::ValueId id = node.inputs[static_cast<std::size_t>(input)];
    sources.push_back(physical_shape(graph.type(id).shape, layout));
  }
  return {physical_shape(graph.type(node.outputs[0]).shape, layout), sources, Pack<T>::kElements};
}

// A scalar list as a kernel. The tasks already have their list and operands.
template <class T, class Tasks>
class ListKernel final : public NodeKernel {
 public:
  ListKernel(const ir::Graph& graph, const ir::Node& node, const std::vector<int>& input_of,
             const Tasks& tasks)
      : NodeKernel(graph, node), tasks_(tasks) {
    for (std::size_t i = 0; i < input_of.size(); ++i) {
      inputs_[i] = node.inputs[static_cast<std::size_t>(input_of[i])];
    }
    tasks_.count = graph.type(node.outputs[0]).elements();
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (tasks_.count == 0) return;
    run_tasks<<<tasks_of<typename Tasks::Chunk>(tasks_.count), kThreads, 0, stream>>>(
        bound(pointers));
    check_launch("elementwise");
  }

  std::optional<MegakernelWork> megakernel_work(Pointers pointers) const override {
    if (tasks_.count == 0) return std::nullopt;
    return make_megakernel_work(bound(pointers), tasks_of<typename Tasks::Chunk>(tasks_.count));
  }

 private:
  Tasks bound(Pointers pointers) const {
    Tasks tasks = tasks_;
    for (std::size_t i = 0; i < inputs_.size(); ++i) tasks.inputs[i] = in<T>(pointers, i);
    for (std::size_t r = 0; r < outputs_.size(); ++r) tasks.outputs[r] = out<T>(pointers, r);
    return tasks;
  }

  Tasks tasks_;
};

template <class T, class Tasks>
std::unique_ptr<Kernel> make_list_kernel(const ir::Graph& graph, const ir::Node& node,
                                         const std::vector<int>& input_of, const Tasks& tasks) {
  return std::make_unique<ListKernel<T, Tasks>>(graph, node, input_of, tasks);
}

}  // namespace traingraph::cuda
