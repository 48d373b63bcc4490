// Layouts. One walk in order: each node says what its kernel wants given what its inputs are now;
// a reorder goes in only where an operand is something else, once per value and layout.
#include <map>
#include <utility>

#include "passes/passes.h"
#include "runtime/threads/interruption.h"

namespace traingraph::passes {
namespace {

using ir::kNone;
using ir::Layout;
using ir::ValueId;

class Assignment {
 public:
  Assignment(const ir::Graph& graph, const Backend& backend,
             const std::vector<ParameterLayout>& parameters, bool choose)
      : backend_(backend),
        parameters_(parameters),
        choose_(choose),
        original_(graph),
        result_(graph) {
    readers_ = ir::consumers(graph);
    result_.nodes.clear();
    together_.resize(parameters.size());
    for (std::size_t v = 0; v < result_.values.size(); ++v) {
      ir::Value& value = result_.values[v];
      if (value.source != ir::Source::parameter) continue;
      value.layout = parameter(value).layout;
      const int follows = parameter(value).follows;
      for (int slot : {value.slot, follows}) {
        if (slot != kNone)
          together_[static_cast<std::size_t>(slot)].push_back(static_cast<ValueId>(v));
      }
    }
    for (const ir::Node& node : graph.nodes) {
      check_compilation();
      add(node);
    }
  }

  ir::Graph take() { return std::move(result_); }

 private:
  const ParameterLayout& parameter(const ir::Value& value) const {
    return parameters_[static_cast<std::size_t>(value.slot)];
  }

  // A parameter nobody has fixed takes what its first kernel prefers; its optimizer buffers follow.
  // Later kernels get copies: the first one reads it as it is.
  void choose_parameter(ValueId id, const Layout& wanted) {
    const int slot = result_.value(id).slot;
    if (decided_.size() < parameters_.size()) decided_.resize(parameters_.size(), false);
    if (!choose_ || parameter(result_.value(id)).fixed ||
        decided_[static_cast<std::size_t>(slot)]) {
      return;
    }
    for (ValueId one : together_[static_cast<std::size_t>(slot)]) {
      ir::Value& value = result_.value(one);
      if (decided_[static_cast<std::size_t>(value.slot)]) continue;
      value.layout = wanted;
      decided_[static_cast<std::size_t>(value.slot)] = true;
    }
  }

  // Behind a cast the reader of its result is asked, as if the parameter stood there.
  void choose_behind_cast(const ir::Node& cast) {
    if (cast.inputs.size() != 1 || result_.value(cast.inputs[0]).source != ir::Source::parameter) {
      return;
    }
    for (ir::NodeId id : readers_[static_cast<std::size_t>(cast.outputs[0])]) {
      const ir::Node& reader = original_.node(id);
      if (reader.op == ir::Op::elementwise) continue;
      const LayoutChoice choice = backend_.layouts(original_, reader);
      for (std::size_t i = 0; i < reader.inputs.size(); ++i) {
        if (reader.inputs[i] != cast.outputs[0] || choice.inputs[i].plain()) continue;
        choose_parameter(cast.inputs[0], choice.inputs[i]);
      }
    }
  }

  ValueId in_layout(ValueId id, const Layout& wanted, const ir::Node& reader) {
    const ir::Value& value = result_.value(id);
    if (ir::same_bytes(value.type.shape, value.layout, wanted)) return id;
    const auto key = std::make_pair(id, ir::to_string(wanted));
    const auto found = reordered_.find(key);
    // A copy made for an earlier phase is stale when it is a copy of a parameter.
    const bool parameter = value.source == ir::Source::parameter;
    if (found != reordered_.end() && !(parameter && phase_of(found->second) != reader.phase)) {
      return found->second;
    }
    const ir::Type type = value.type;
    result_.phase = reader.phase;
    result_.layer = reader.layer;
    const ir::NodeId node = result_.add_node(ir::Op::reorder, ir::NoAttributes{}, {id}, {type});
    const ValueId copy = result_.node(node).outputs[0];
    result_.value(copy).layout = wanted;
    reordered_[key] = copy;
    return copy;
  }

  ir::Phase phase_of(ValueId id) const { return result_.node(result_.value(id).producer).phase; }

  void add(const ir::Node& original) {
    ir::Node node = original;
    if (node.op == ir::Op::elementwise) choose_behind_cast(node);
    LayoutChoice choice = backend_.layouts(result_, node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ir::Value& input = result_.value(node.inputs[i]);
      if (input.source != ir::Source::parameter) continue;
      const bool any_layout = node.op == ir::Op::elementwise;
      choose_parameter(node.inputs[i], any_layout ? input.layout : choice.inputs[i]);
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      node.inputs[i] = in_layout(node.inputs[i], choice.inputs[i], node);
    }
    std::vector<std::pair<ValueId, ValueId>> writes;  // result in the kernel's layout, target
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      ir::Value& value = result_.value(node.outputs[k]);
      value.layout = choice.outputs[k];
      value.producer = static_cast<ir::NodeId>(result_.nodes.size());
      if (value.writes != kNone &&
          !ir::same_bytes(value.type.shape, result_.value(value.writes).layout, value.layout)) {
        writes.emplace_back(node.outputs[k], value.writes);
        value.writes = kNone;
      }
    }
    const ir::Node placed = node;
    result_.nodes.push_back(std::move(node));
    for (const auto& [value, target] : writes) {
      const Layout wanted = result_.value(target).layout;  // a copy: new values move the old ones
      const ValueId copy = in_layout(value, wanted, placed);
      result_.value(copy).writes = target;
    }
  }

  const Backend& backend_;
  const std::vector<ParameterLayout>& parameters_;
  bool choose_;
  const ir::Graph& original_;
  std::vector<std::vector<ir::NodeId>> readers_;
  ir::Graph result_;
  std::vector<std::vector<ValueId>> together_;  // by slot: the parameter and its buffers
  std::vector<bool> decided_;
  std::map<std::pair<ValueId, std::string>, ValueId> reordered_;
};

}  // namespace

ir::Graph assign_layouts(const ir::Graph& graph, const Backend& backend,
                         const std::vector<ParameterLayout>& parameters, bool choose_parameters) {
  return Assignment(graph, backend, parameters, choose_parameters).take();
}

}  // namespace traingraph::passes
