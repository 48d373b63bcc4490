// Adds gradient and update ops to a lowered graph: seeds, autodiff, sums over micro-batches, loss
// scaling, and the optimizer.
#include "graph/lowering/training_lowering.h"

#include <map>
#include <utility>

#include <traingraph/errors.h>

#include "graph/lowering/loss_scaling.h"
#include "graph/lowering/optimizer_shards.h"
#include "graph/lowering/rank_sums.h"
#include "graph/state/link_set.h"
#include "layers/real_rows.h"
#include "ops/emit.h"
#include "optimizers/update_emitter.h"
#include "runtime/memory/parameter_store.h"

namespace traingraph {
namespace {

using ir::kNone;
using ir::ValueId;

// A tensor whose gradient is computed.
struct Wanted {
  TensorPtr tensor;
  ValueId value = kNone;
  bool updated = false;
  bool readable = false;  // after a full step too
};

class TrainingWriter {
 public:
  TrainingWriter(const GraphState& state, const std::vector<NodeRecord>& nodes, LoweredGraph& out)
      : state_(state), nodes_(nodes), out_(out) {}

  void write() {
    check_tensor_parameters();
    want_parameters();
    want_readable();
    if (state_.ranks != nullptr) add_statistics();
    differentiate();
    check_outputs();
    for (const TensorPtr& tensor : out_.lowering.parameters) out_.slots.push_back({tensor, ""});
    if (state_.micro_batches > 1) accumulate();
    if (state_.ranks != nullptr) {
      add_over_ranks();
      replace_statistics();
    }
    if (state_.optimizer != nullptr) update();
  }

 private:
  ir::Graph& graph() { return out_.lowering.graph; }

  // kNone for a tensor that is no floating-point value of this lowering.
  ValueId value_of(const Tensor* tensor) const {
    const auto parameter = out_.lowering.parameter_values.find(tensor);
    if (parameter != out_.lowering.parameter_values.end()) return parameter->second;
    const auto found = out_.tensors.find(tensor);
    if (found == out_.tensors.end()) return kNone;
    const ir::Type& type = out_.lowering.graph.type(found->second);
    return is_floating_point(type.data_type) ? found->second : kNone;
  }

  Wanted* want(const TensorPtr& tensor) {
    const ValueId value = value_of(tensor.get());
    if (value == kNone) return nullptr;
    const auto [found, is_new] = place_of_.try_emplace(tensor.get(), wanted_.size());
    if (is_new) wanted_.push_back({tensor, value});
    return &wanted_[found->second];
  }

  // What is trained has to be read by a layer and must not be fed.
  void check_tensor_parameters() const {
    for (const TensorParameter& p : state_.tensor_parameters) {
      if (out_.lowering.parameter_values.contains(p.tensor.get())) continue;
      throw InvalidArgument("[set_training_tensor_parameters] tensor '" + p.tensor->label() +
                            "' cannot be trained: " +
                            (out_.tensors.contains(p.tensor.get())
                                 ? "it is declared by add_inputs or computed"
                                 : "no layer reads it"));
    }
  }

  // Parameters in the order of their first use; one that is frozen anywhere stays as it is.
  void want_parameters() {
    std::vector<std::pair<TensorPtr, bool>> found;
    std::map<const Tensor*, std::size_t> places;
    auto add = [&](const TensorPtr& tensor, bool updatable) {
      const auto [place, is_new] = places.try_emplace(tensor.get(), found.size());
      if (is_new) return void(found.emplace_back(tensor, updatable));
      bool& updates = found[place->second].second;
      updates = updates && updatable;
    };
    for (const NodeRecord& node : nodes_) {
      for (const TensorParameter* parameter : node.layer->parameters()) {
        add(parameter->tensor,
            parameter->is_updatable && !node.disable_update && state_.may_train(parameter->tensor));
      }
    }
    for (const TensorParameter& p : state_.tensor_parameters) add(p.tensor, p.is_updatable);
    for (const auto& [tensor, updatable] : found) {
      if (!updatable || state_.constants.contains(tensor) ||
          !out_.lowering.parameter_values.contains(tensor.get())) {
        continue;
      }
      Wanted& wanted = *want(tensor);
      wanted.updated = true;
      wanted.readable = state_.optimizer == nullptr;
      out_.trained.push_back(tensor);
    }
  }

  void want_readable() {
    auto read = [&](const TensorPtr& tensor) {
      if (Wanted* wanted = want(tensor)) wanted->readable = true;
    };
    for (const auto& [name, tensor] : state_.outputs) {
      if (const TensorPtr of = state_.differentiated(tensor.get())) read(of);
    }
    const bool all = has(state_.options, CompilationOptions::kComputeAllGradients);
    for (const BoundSlot& slot : out_.bound) {
      if (slot.may_be_linked() || (all && !is_label(slot.tensor))) read(slot.tensor);
    }
    if (!has(state_.options, CompilationOptions::kDebugLayers)) return;
    for (const NodeRecord& node : nodes_) {
      if (!node.layer->is_debugging_enabled()) continue;
      for (const TensorPtr& tensor : node.sources) read(tensor);
      for (const TensorPtr& tensor : node.results) read(tensor);
    }
  }

  bool is_label(const TensorPtr& tensor) const {
    return names(state_.loss_labels, tensor.get()) ||
           names(state_.loss_label_weights, tensor.get());
  }

  void differentiate() {
    std::vector<bool> stopped(graph().values.size(), false);
    for (const TensorPtr& tensor : state_.stopped) {
      const auto found = out_.tensors.find(tensor.get());
      if (found == out_.tensors.end()) {
        throw InvalidArgument("[stop_gradient] expected a tensor of this graph but got '" +
                              tensor->label() + "'");
      }
      stopped[static_cast<std::size_t>(found->second)] = true;
    }
    graph().phase = ir::Phase::gradient;
    std::vector<passes::Seed> seeds;
    for (const LoweredGraph::End& end : out_.ends) {
      // A group of micro-batches gives the mean over all of its rows.
      const double start = end.is_mean ? 1.0 / state_.micro_batches : 1.0;
      const ValueId filled = ops::filled(graph(), graph().type(end.value), start);
      const ValueId seed = share_of_rank(state_, out_.lowering, filled, end.is_mean);
      seeds.push_back({end.value, real_rows(out_.lowering, seed)});
    }
    for (const GradientHandle& handle : state_.user_gradients) {
      const ValueId value = out_.tensors.at(handle.of.get());
      const ValueId given = bind_gradient(handle, value, BoundSlot::From::user_gradient);
      seeds.push_back({value, real_rows(out_.lowering, given)});
    }
    add_linked_seeds(seeds);
    scaling_ = LossScaling::make(state_, out_);
    if (scaling_ != nullptr) {
      for (passes::Seed& seed : seeds) seed.gradient = scaling_->scaled(seed.gradient);
    }
    std::vector<ValueId> values;
    for (const Wanted& wanted : wanted_) values.push_back(wanted.value);
    std::vector<ValueId> gradients = passes::autodiff(graph(), seeds, values, stopped);
    for (std::size_t k = 0; k < wanted_.size(); ++k) {
      if (gradients[k] == kNone) continue;
      if (scaling_ != nullptr) gradients[k] = scaling_->unscaled(gradients[k]);
      gradients[k] = ops::cast(graph(), gradients[k], graph().type(values[k]).data_type);
      out_.gradients.emplace(wanted_[k].tensor.get(), gradients[k]);
      if (wanted_[k].readable) graph().value(gradients[k]).keep = true;
    }
  }

  // Every linked graph that trains on a tensor of this one sends its gradient.
  void add_linked_seeds(std::vector<passes::Seed>& seeds) {
    if (state_.links == nullptr) return;
    for (const NodeRecord& node : nodes_) {
      for (const TensorPtr& tensor : node.results) {
        const ValueId value = value_of(tensor.get());
        if (value == kNone) continue;
        for (const auto& reader : state_.links->readers(state_, tensor.get(), true)) {
          seeds.push_back(
              {value, bind_gradient({tensor, tensor}, value, BoundSlot::From::linked_gradient)});
          out_.bound.back().linked_graph = reader->number;
        }
      }
    }
  }

  ValueId bind_gradient(const GradientHandle& handle, ValueId of, BoundSlot::From from) {
    const int slot = static_cast<int>(out_.bound.size());
    const std::string name = handle.gradient->label();
    ir::Type type = graph().type(of);  // a copy: adding a value moves the graph's own
    const ValueId value = graph().add_source(ir::Source::bound, slot, std::move(type), name);
    out_.bound.push_back({name, handle.gradient, value, {}, from});
    return value;
  }

  void check_outputs() const {
    for (const auto& [name, tensor] : state_.outputs) {
      const TensorPtr of = state_.differentiated(tensor.get());
      if (of == nullptr || out_.gradients.contains(of.get())) continue;
      throw InvalidArgument("[compile] expected a gradient for output '" + name +
                            "' but nothing flows from the loss to tensor '" + of->label() + "'");
    }
  }

  // Adds a buffer that has the parameter's shape and layout, or a rank's part of one.
  ValueId add_buffer(const TensorPtr& tensor, const std::string& name, bool accumulates) {
    const ValueId parameter = out_.lowering.parameter_values.at(tensor.get());
    const int slot = static_cast<int>(out_.slots.size());
    ir::Type type = graph().type(parameter);
    const bool is_part = state_.buffer_parts != nullptr && !accumulates;
    if (is_part) type.shape = {state_.buffer_parts->elements(type.shape)};
    out_.slots.push_back(
        {tensor, name, is_part ? kNone : graph().value(parameter).slot, accumulates});
    return graph().add_source(ir::Source::parameter, slot, std::move(type),
                              tensor->label() + "." + name);
  }

  // The first micro-batch of a group writes the sum, the others add to it.
  void accumulate() {
    graph().phase = ir::Phase::gradient;
    const ValueId adds = out_.lowering.step(ir::StepInput::accumulates);
    for (const Wanted& wanted : wanted_) {
      const auto gradient = out_.gradients.find(wanted.tensor.get());
      if (!wanted.updated || gradient == out_.gradients.end()) continue;
      const ValueId sum = add_buffer(wanted.tensor, "gradient sum", true);
      ir::ScalarList list;
      list.inputs = 3;
      const int before = list.add(ir::Scalar::mask, 0, 1);
      list.results.push_back(list.add(ir::Scalar::add, before, 2));
      const ValueId total =
          ops::elementwise(graph(), std::move(list), {sum, adds, gradient->second})[0];
      graph().value(total).writes = sum;
      gradient->second = total;
    }
  }

  // What the forward pass writes, as running statistics, becomes the mean over ranks, so that all
  // of them go on with the same. The means travel first, and are written when all sums are there.
  // The last layer's are computed first: behind them a GPU computes the others in the same launch,
  // and not each beside the next layer.
  void add_statistics() {
    std::vector<ValueId> written = written_by_rank(out_.lowering);
    std::ranges::reverse(written);
    graph().phase = ir::Phase::forward;
    std::vector<ValueId> shares;
    for (const ValueId value : written) {
      shares.push_back(share_of_rank(state_, out_.lowering, value, true));
    }
    const std::vector<ValueId> means =
        sums_over_ranks(state_, out_.lowering, shares, ir::Phase::gradient);
    for (std::size_t k = 0; k < written.size(); ++k) {
      statistics_.emplace_back(means[k], std::exchange(graph().value(written[k]).writes, kNone));
    }
  }

  void replace_statistics() {
    graph().phase = ir::Phase::gradient;
    for (const auto& [mean, place] : statistics_) {
      graph().value(ops::unary(graph(), ir::Scalar::identity, mean)).writes = place;
    }
  }

  // Of what is trained; gradients of inputs are those of the rank's own rows.
  void add_over_ranks() {
    std::vector<const Tensor*> tensors;
    std::vector<ValueId> values;
    for (const Wanted& wanted : wanted_) {
      const auto gradient = out_.gradients.find(wanted.tensor.get());
      if (!wanted.updated || gradient == out_.gradients.end()) continue;
      tensors.push_back(gradient->first);
      values.push_back(gradient->second);
    }
    const bool in_bfloat16 = state_.distributed.gradient_exchange.has_value();
    if (in_bfloat16 && out_.lowering.data_type == DataType::kFloat64) {
      throw InvalidArgument(
          "[compile] expected float32 tensors for a gradient_exchange of bfloat16 but got float64");
    }
    // Once in a step of micro-batches.
    const ir::Phase phase = state_.micro_batches > 1 ? ir::Phase::update : ir::Phase::gradient;
    const std::vector<ValueId> sums =
        sums_over_ranks(state_, out_.lowering, values, phase, in_bfloat16);
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      graph().value(sums[k]).keep = graph().value(values[k]).keep;
      out_.gradients[tensors[k]] = sums[k];
    }
  }

  void update() {
    std::vector<UpdateTarget> targets;
    const std::vector<int> layers = first_layers();
    for (const Wanted& wanted : wanted_) {
      const auto gradient = out_.gradients.find(wanted.tensor.get());
      if (!wanted.updated || gradient == out_.gradients.end()) continue;
      UpdateTarget target{
          wanted.value, gradient->second, {}, layers[static_cast<std::size_t>(wanted.value)]};
      if (state_.buffer_parts != nullptr) cut(target);
      for (const std::string& buffer : state_.optimizer->slots()) {
        target.slots.push_back(add_buffer(wanted.tensor, buffer, false));
      }
      targets.push_back(std::move(target));
    }
    ValueId counts = kNone;
    if (scaling_ != nullptr && !targets.empty()) {
      std::vector<ValueId> gradients;
      for (const UpdateTarget& target : targets) gradients.push_back(target.gradient);
      counts = scaling_->all_finite(gradients);
      scaling_->update(counts);
    }
    const std::vector<ValueId> updated = emit_updates(
        graph(), *state_.optimizer, targets, out_.lowering.step(ir::StepInput::learning_rate),
        out_.lowering.step(ir::StepInput::corrected_learning_rate), counts);
    if (state_.buffer_parts != nullptr) join(targets, updated);
  }

  // Each rank updates a part of a parameter, and all join theirs.
  void cut(UpdateTarget& target) {
    graph().phase = ir::Phase::update;
    target.part = {part_of_rank(state_, out_.lowering, target.parameter),
                   part_of_rank(state_, out_.lowering, target.gradient)};
  }

  void join(const std::vector<UpdateTarget>& targets, const std::vector<ValueId>& parts) {
    std::vector<ValueId> values;
    for (std::size_t k = 0; k < targets.size(); ++k) {
      const ir::Type type = graph().type(targets[k].parameter);
      values.push_back(whole_of_part(state_, out_.lowering, parts[k], type));
    }
    const std::vector<ValueId> sums =
        sums_over_ranks(state_, out_.lowering, values, ir::Phase::update);
    for (std::size_t k = 0; k < targets.size(); ++k) {
      graph().value(sums[k]).writes = targets[k].parameter;
    }
  }

  // By value: the layer that reads it first. Profiles count the update of a parameter there.
  std::vector<int> first_layers() {
    std::vector<int> layers(graph().values.size(), kNone);
    for (std::size_t n = graph().nodes.size(); n-- > 0;) {
      const ir::Node& node = graph().nodes[n];
      for (ValueId input : node.inputs) layers[static_cast<std::size_t>(input)] = node.layer;
    }
    return layers;
  }

  const GraphState& state_;
  const std::vector<NodeRecord>& nodes_;
  LoweredGraph& out_;
  std::vector<Wanted> wanted_;
  std::map<const Tensor*, std::size_t> place_of_;  // in wanted_
  std::unique_ptr<LossScaling> scaling_;           // null: none
  // Means over ranks, and the parameters that they replace.
  std::vector<std::pair<ValueId, ValueId>> statistics_;
};

}  // namespace

void add_training(const GraphState& state, const std::vector<NodeRecord>& nodes,
                  LoweredGraph& out) {
  TrainingWriter(state, nodes, out).write();
}

}  // namespace traingraph
