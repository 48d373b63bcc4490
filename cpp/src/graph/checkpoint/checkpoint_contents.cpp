// What a checkpoint holds, and under which names.
#include "graph/checkpoint/checkpoint_contents.h"

#include <map>
#include <set>

#include <traingraph/errors.h>

#include "graph/lowering/lowering.h"
#include "runtime/memory/parameter_store.h"

namespace traingraph {
namespace {

// Its own label; a default one counts what the process has made.
std::string label_of(const Tensor& tensor) {
  const std::string label = tensor.state().label.get();
  return label.empty() ? "data" : label;
}

class Names {
 public:
  Names(const GraphState& state, Contents& out)
      : state_(state), nodes_(state.ordered_nodes()), out_(out) {
    for (const TensorParameter& p : state.tensor_parameters) trained_.insert(p.tensor.get());
  }

  void write() {
    name_layers();
    name_constants();
    // Before a layer reads them.
    for (const TensorParameter& parameter : state_.tensor_parameters) add(parameter.tensor);
  }

  const std::set<const Tensor*>& trainable() const { return trainable_; }

 private:
  void name_layers() {
    std::set<const Layer*> layers;
    for (const NodeRecord& node : nodes_) {
      if (!layers.insert(node.layer.get()).second) continue;
      const std::string prefix = std::to_string(layers.size()) + "." + node.layer->label() + ".";
      for (const auto& [name, tensor] : node.layer->named_parameters()) {
        if (tensor != nullptr && seen_.insert(tensor.get()).second) {
          out_.parameters.emplace_back(prefix + name, tensor);
        }
      }
      for (const TensorParameter* parameter : node.layer->parameters()) {
        trainable_.insert(parameter->tensor.get());
        if (seen_.contains(parameter->tensor.get())) continue;
        throw InternalError("[" + node.layer->description() + "] has a parameter '" +
                            parameter->tensor->label() + "' that it does not name");
      }
    }
  }

  // What layers read that has data and is neither computed nor declared. All of them are counted,
  // so that a graph of the same layers gives the same names whatever it trains.
  void name_constants() {
    std::set<const Tensor*> given;  // computed or declared
    for (const NodeRecord& node : nodes_) {
      for (const TensorPtr& result : node.results) given.insert(result.get());
    }
    for (const auto* group : {&state_.inputs, &state_.loss_labels, &state_.loss_label_weights}) {
      for (const auto& [name, tensor] : *group) given.insert(tensor.get());
    }
    for (const NodeRecord& node : nodes_) {
      for (const TensorPtr& tensor : node.sources) {
        if (given.contains(tensor.get())) continue;
        TensorState& held = tensor->state();
        const std::lock_guard lock(held.host);
        if (held.parameter != nullptr || held.given().bytes != nullptr || is_trained(tensor)) {
          add(tensor);
        }
      }
    }
  }

  void add(const TensorPtr& tensor) {
    if (!seen_.insert(tensor.get()).second) return;
    const std::string base = "tensor." + label_of(*tensor);
    std::string name = base;
    int& next = next_.try_emplace(base, 2).first->second;
    while (!taken_.insert(name).second) name = base + "." + std::to_string(next++);
    (is_trained(tensor) ? out_.parameters : out_.untrained).emplace_back(name, tensor);
    trainable_.insert(tensor.get());
  }

  bool is_trained(const TensorPtr& tensor) const {
    return state_.training ? trained_.contains(tensor.get()) : tensor->state().is_trained;
  }

  const GraphState& state_;
  const std::vector<NodeRecord> nodes_;
  Contents& out_;
  std::set<const Tensor*> seen_;
  std::set<const Tensor*> trained_;
  std::set<std::string> taken_;
  std::map<std::string, int> next_;  // by label: what may be free
  std::set<const Tensor*> trainable_;
};

// Which parameters an update changes follows from the gradient, so the graph is written as ops.
void sort_by_updates(const GraphState& state, const std::set<const Tensor*>& trainable,
                     Contents& out) {
  if (state.loss_layer != nullptr && state.loss_labels.empty()) {
    throw InvalidArgument(
        "[checkpoint] expected loss labels declared by add_inputs but got none: without a loss "
        "there is no optimizer state");
  }
  std::set<const Tensor*> updated, summed;
  for (const LoweredGraph::Slot& slot : lower(state, 0, Mode::training).slots) {
    if (!slot.buffer.empty()) (slot.accumulates ? summed : updated).insert(slot.tensor.get());
  }
  for (const auto& entry : out.parameters) {
    const Tensor* tensor = entry.second.get();
    if (summed.contains(tensor)) out.summed.push_back(entry);
    if (out.slots.empty() || !trainable.contains(tensor)) continue;
    (updated.contains(tensor) ? out.updated : out.resting).push_back(entry);
  }
}

}  // namespace

Contents contents_of(const GraphState& state, bool with_training) {
  Contents contents;
  Names names(state, contents);
  names.write();
  if (!with_training) return contents;
  if (state.optimizer != nullptr) {
    contents.slots = state.optimizer->slots();
    contents.numbers.push_back(kTimeStep);
  }
  if (!contents.slots.empty() || state.micro_batches > 1) {
    sort_by_updates(state, names.trainable(), contents);
  }
  if (state.loss_scale != nullptr) {
    contents.scaling = {{kLossScale, state.loss_scale}, {kGoodSteps, state.good_steps}};
  }
  contents.numbers.insert(contents.numbers.end(), {kForwardCount, kRandomSeed});
  return contents;
}

std::string slot_name(const std::string& parameter, const std::string& slot) {
  return kOfOptimizer + parameter + "." + slot;
}

std::string sum_name(const std::string& parameter) { return "state.gradient_sum." + parameter; }

}  // namespace traingraph
