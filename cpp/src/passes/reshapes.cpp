// Elementwise ops over a reshaped result go before the reshape, where fusion can join them with
// what computes it: y = f(reshape(x), z) becomes y = reshape(f(x, z')), z' being z in the shape of
// x. Reshapes are views, so this only changes who sees which shape.
#include <algorithm>

#include "passes/passes.h"

namespace traingraph::passes {
namespace {

using ir::kNone;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::ValueId;

class ReshapesLast {
 public:
  explicit ReshapesLast(const ir::Graph& graph) : graph_(graph), readers_(ir::consumers(graph)) {
    result_.layers = graph.layers;
    result_.values = graph.values;
  }

  ir::Graph run() {
    for (const Node& node : graph_.nodes) {
      const ValueId source = reshaped_source(node);
      if (source == kNone) {
        result_.append(node);
      } else {
        move(node, source);
      }
    }
    return std::move(result_);
  }

 private:
  // Whether all operands are of the result's shape, or one element.
  bool is_pointwise(const Node& node) const {
    if (node.op != Op::elementwise || node.outputs.size() != 1) return false;
    const ir::Value& y = graph_.value(node.outputs[0]);
    return y.writes == kNone && std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId x) {
             return graph_.type(x).shape == y.type.shape || graph_.type(x).elements() == 1;
           });
  }

  // Whether what reads the result could follow, so that no pair of neighbours is parted.
  bool is_followed(const Node& node) const {
    const auto& readers = readers_[static_cast<std::size_t>(node.outputs[0])];
    return std::all_of(readers.begin(), readers.end(), [&](NodeId id) {
      const Node& reader = graph_.node(id);
      return reader.op != Op::elementwise || reader.phase != node.phase || is_pointwise(reader);
    });
  }

  // The operand that is a reshape of what only it reads, and what fusion may join the node with.
  ValueId reshaped_source(const Node& node) const {
    if (!is_pointwise(node) || !is_followed(node)) return kNone;
    const auto found = std::find_if(node.inputs.begin(), node.inputs.end(), [&](ValueId x) {
      if (result_.type(x).shape != graph_.type(node.outputs[0]).shape) return false;
      const ValueId behind = behind_reshape(x);
      if (behind == kNone || !is_read_once(x) || !is_read_once(behind)) return false;
      const NodeId producer = result_.value(behind).producer;
      if (producer == kNone) return false;
      const Node& computes = result_.node(producer);
      const bool joins = computes.op == Op::matmul || computes.op == Op::elementwise;
      return joins && computes.phase == node.phase;
    });
    return found == node.inputs.end() ? kNone : *found;
  }

  ValueId behind_reshape(ValueId x) const {
    const NodeId producer = result_.value(x).producer;
    if (producer == kNone || result_.node(producer).op != Op::reshape) return kNone;
    return result_.node(producer).inputs[0];
  }

  bool is_read_once(ValueId x) const {
    if (graph_.values.size() <= static_cast<std::size_t>(x)) return true;  // made by move()
    return !graph_.value(x).keep && readers_[static_cast<std::size_t>(x)].size() == 1;
  }

  ValueId add_value(const ir::Type& type) {
    ir::Value value;
    value.type = type;
    result_.values.push_back(std::move(value));
    return static_cast<ValueId>(result_.values.size()) - 1;
  }

  void append_reshape(const Node& beside, ValueId from, ValueId to) {
    Node node;
    node.op = Op::reshape;
    node.attributes = ir::ReshapeAttributes{result_.type(to).shape, result_.type(to).batched};
    node.inputs = {from};
    node.outputs = {to};
    node.phase = beside.phase;
    node.layer = beside.layer;
    result_.append(std::move(node));
  }

  // x in this shape, at no cost.
  ValueId as(const Node& beside, ValueId x, const ir::Type& shaped) {
    if (result_.type(x).shape == shaped.shape) return x;
    const ValueId behind = behind_reshape(x);
    if (behind != kNone && result_.type(behind).shape == shaped.shape) return behind;
    const ir::Type& own = result_.type(x);
    const ValueId seen = add_value({own.data_type, shaped.shape, shaped.batched && own.batched});
    append_reshape(beside, x, seen);
    return seen;
  }

  void move(const Node& node, ValueId source) {
    const ir::Type inner = result_.type(behind_reshape(source));
    const ir::Type outer = graph_.type(node.outputs[0]);
    Node moved = node;
    for (ValueId& x : moved.inputs) {
      const bool whole = graph_.type(x).shape == outer.shape;
      x = as(node, x, whole ? inner : ir::Type{inner.data_type, {}, false});
    }
    auto& attributes = std::get<ir::ElementwiseAttributes>(moved.attributes);
    attributes.shape = inner.shape;
    attributes.shape_batched = inner.batched;
    moved.outputs = {add_value({outer.data_type, inner.shape, inner.batched})};
    const ValueId result = moved.outputs[0];
    result_.append(std::move(moved));
    append_reshape(node, result, node.outputs[0]);
  }

  const ir::Graph& graph_;
  std::vector<std::vector<NodeId>> readers_;
  ir::Graph result_;
};

}  // namespace

ir::Graph with_reshapes_last(const ir::Graph& graph) { return ReshapesLast(graph).run(); }

}  // namespace traingraph::passes
