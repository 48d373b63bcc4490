// Dropout (dropout_tasks.h).
#include <optional>
#include <type_traits>

#include "backends/cuda/kernel/node_kernel.h"
#include "backends/cuda/tasks/megakernel_tasks.h"

namespace traingraph::cuda {
namespace {

template <class S>
class Dropout final : public NodeKernel {
 public:
  Dropout(const ir::Graph& graph, const ir::Node& node, const Context&) : NodeKernel(graph, node) {
    const auto& a = std::get<ir::DropoutAttributes>(node.attributes);
    const Shape& shape = graph.type(node.outputs[0]).shape;
    tasks_.count = graph.type(node.outputs[0]).elements();
    tasks_.row = shape.empty() || shape[0] == 0 ? tasks_.count : tasks_.count / shape[0];
    tasks_.seed = a.seed;
    tasks_.threshold = philox::keep_threshold(a.rate);
    tasks_.scale = static_cast<Compute<S>>(1 / (1 - a.rate));
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (tasks_.count == 0) return;
    run_tasks<<<blocks(), kThreads, 0, stream>>>(bound(pointers));
    check_launch("dropout");
  }

  std::optional<MegakernelWork> megakernel_work(Pointers pointers) const override {
    if constexpr (std::is_same_v<S, float>) {
      if (tasks_.count > 0) return make_megakernel_work(bound(pointers), blocks());
    }
    return std::nullopt;
  }

 private:
  unsigned blocks() const { return blocks_for(tasks_.count / 4 + 2); }

  DropoutTasks<S> bound(Pointers pointers) const {
    DropoutTasks<S> tasks = tasks_;
    tasks.x = in<S>(pointers, 0);
    tasks.step = in<std::int64_t>(pointers, 1);
    tasks.first_row = inputs_.size() > 2 ? in<std::int64_t>(pointers, 2) : nullptr;
    tasks.y = out<S>(pointers, 0);
    return tasks;
  }

  DropoutTasks<S> tasks_{};
};

}  // namespace

std::vector<KernelEntry> dropout_entries() {
  return {{ir::Op::dropout, supports_floating_or_half, make_floating_or_half<Dropout>, nullptr,
           nullptr}};
}

}  // namespace traingraph::cuda
