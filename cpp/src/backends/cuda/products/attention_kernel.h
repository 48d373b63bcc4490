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
    const ir::AttentionExtents extents(a, at_, types);
    task_ = attention_task<S>(a, extents, at_.step != 0);
    row_ = extents.row();
    step_ = extents.row_step();
    is_joined_ = a.joined;
    has_marks_ = at_.mask != 0 && types[at_.mask].data_type == DataType::kBoolean;
  }

 protected:
  std::int64_t heads() const { return task_.samples * task_.heads; }

  AttentionTask<S> bound(Pointers pointers) const {
    AttentionTask<S> task = task_;
    task.q = third(in<S>(pointers, at_.q), 0);
    task.k = third(in<S>(pointers, at_.k), 1);
    task.v = third(in<S>(pointers, at_.v), 2);
    if (at_.key_mask != 0) task.key_mask = in<bool>(pointers, at_.key_mask);
    if (at_.mask != 0 && has_marks_) task.mask = in<bool>(pointers, at_.mask);
    if (at_.mask != 0 && !has_marks_) task.added = in<Compute<S>>(pointers, at_.mask);
    if (at_.step != 0) task.step = in<std::int64_t>(pointers, at_.step);
    if (at_.first_row != 0) task.first_row = in<std::int64_t>(pointers, at_.first_row);
    return task;
  }
  Rows<S> result(Pointers pointers) const { return {out<S>(pointers, 0), row_}; }
  Slopes<S> slopes(Pointers pointers) const {
    const std::size_t of_keys = is_joined_ ? 0 : 1, of_values = is_joined_ ? 0 : 2;
    const std::size_t of_mask = of_values + 1;
    return {{in<S>(pointers, at_.dy), row_},
            {in<S>(pointers, at_.y), row_},
            in<Compute<S>>(pointers, at_.largest),
            in<Compute<S>>(pointers, at_.logarithm),
            third(out<S>(pointers, 0), 0),
            third(out<S>(pointers, of_keys), 1),
            third(out<S>(pointers, of_values), 2),
            outputs_.size() > of_mask ? out<Compute<S>>(pointers, of_mask) : nullptr,
            nullptr,
            nullptr};
  }
  // Of q, k and v, which may be the thirds of one tensor's rows.
  template <class T>
  Rows<T> third(T* x, std::int64_t number) const {
    return {is_joined_ ? x + number * row_ : x, step_};
  }

  bool is_gradient_;
  ir::AttentionOperands at_;
  AttentionTask<S> task_{};
  std::int64_t row_ = 0, step_ = 0;  // elements of a row of y, and between rows of q, k and v
  bool is_joined_ = false;
  bool has_marks_ = false;  // whether the mask is boolean
};

}  // namespace traingraph::cuda
