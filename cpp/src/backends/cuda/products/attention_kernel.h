// What kernels of attention and of its gradient share on the host. For .cu files only.
#pragma once

#include "backends/cuda/kernel/node_kernel.h"
#include "backends/cuda/products/attention_tiles.h"

namespace traingraph::cuda {

template <class S>
class AttentionKernel : public NodeKernel {
 public:
  AttentionKernel(const ir::Graph& graph, const ir::Node& node)
      : NodeKernel(graph, node),
        is_gradient_(node.op == ir::Op::attention_gradient),
        at_(std::get<ir::AttentionAttributes>(node.attributes), is_gradient_, node.inputs.size()) {
    std::vector<ir::Type> types;
    for (ir::ValueId id : node.inputs) types.push_back(graph.type(id));
    const auto& a = std::get<ir::AttentionAttributes>(node.attributes);
    task_ = attention_task<S>(a, ir::AttentionExtents(a, at_, types), at_.step != 0);
    has_marks_ = at_.mask != 0 && types[at_.mask].data_type == DataType::kBoolean;
  }

 protected:
  std::int64_t heads() const { return task_.samples * task_.heads; }

  AttentionTask<S> bound(Pointers pointers) const {
    AttentionTask<S> task = task_;
    task.q = in<S>(pointers, at_.q);
    task.k = in<S>(pointers, at_.k);
    task.v = in<S>(pointers, at_.v);
    if (at_.key_mask != 0) task.key_mask = in<bool>(pointers, at_.key_mask);
    if (at_.mask != 0 && has_marks_) task.mask = in<bool>(pointers, at_.mask);
    if (at_.mask != 0 && !has_marks_) task.added = in<Compute<S>>(pointers, at_.mask);
    if (at_.step != 0) task.step = in<std::int64_t>(pointers, at_.step);
    if (at_.first_row != 0) task.first_row = in<std::int64_t>(pointers, at_.first_row);
    return task;
  }
  Slopes<S> slopes(Pointers pointers) const {
    return {in<S>(pointers, at_.dy),
            in<S>(pointers, at_.y),
            in<Compute<S>>(pointers, at_.largest),
            in<Compute<S>>(pointers, at_.logarithm),
            out<S>(pointers, 0),
            out<S>(pointers, 1),
            out<S>(pointers, 2),
            outputs_.size() > 3 ? out<Compute<S>>(pointers, 3) : nullptr,
            nullptr};
  }

  bool is_gradient_;
  ir::AttentionOperands at_;
  AttentionTask<S> task_{};
  bool has_marks_ = false;  // whether the mask is boolean
};

}  // namespace traingraph::cuda
