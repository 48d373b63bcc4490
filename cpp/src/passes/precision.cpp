// Precision. TF32 is a flag on products. Mixed precision is one walk in order: each op says which
// of its operands it takes in 16 bits, and a cast goes in only where an operand has another form,
// once per value. Products always compute in 16 bits; what stands between them (elementwise, batch
// norm, pooling, moved data) follows its main operand; everything else, and every update, is
// float32. Casts are elementwise ops, so fusion joins them to what is before or behind them.
#include <algorithm>
#include <utility>

#include "ops/emit.h"
#include "passes/passes.h"
#include "passes/result_types.h"

namespace traingraph::passes {
namespace {

using ir::kNone;
using ir::Node;
using ir::Op;
using ir::Phase;
using ir::ValueId;

// Products may round their operands; everything else stays as it is.
ir::Graph with_tf32(ir::Graph graph) {
  for (Node& node : graph.nodes) {
    if (auto* matmul = std::get_if<ir::MatmulAttributes>(&node.attributes)) matmul->tf32 = true;
    if (auto* attention = std::get_if<ir::AttentionAttributes>(&node.attributes)) {
      attention->tf32 = true;
    }
    if (auto* window = std::get_if<ir::ConvolutionAttributes>(&node.attributes)) {
      window->tf32 = true;
    }
  }
  return graph;
}

const ops::Properties& properties(Op op) { return ops::definition(op).properties; }
bool is_product(Op op) { return properties(op).mixed == ops::Mixed::product; }
bool follows(Op op) { return properties(op).mixed == ops::Mixed::follows; }

class Mixing {
 public:
  Mixing(const ir::Graph& graph, DataType half, const std::vector<ValueId>& visible)
      : half_type_(half),
        original_(graph),
        result_(graph),
        visible_(graph.values.size(), false),
        flows_half_(graph.values.size(), false),
        half_form_(graph.values.size(), kNone),
        full_form_(graph.values.size(), kNone) {
    result_.nodes.clear();
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      visible_[v] = graph.values[v].keep || graph.values[v].writes != kNone;
      if (graph.values[v].source != ir::Source::node) own_form(static_cast<ValueId>(v));
    }
    for (ValueId value : visible) visible_[at(value)] = true;
    find_wanted();
    for (const Node& node : graph.nodes) add(node);
  }

  ir::Graph take() { return std::move(result_); }

 private:
  static std::size_t at(ValueId value) { return static_cast<std::size_t>(value); }

  DataType given_type(ValueId value) const { return original_.type(value).data_type; }
  bool convertible(ValueId value) const { return given_type(value) == DataType::kFloat32; }

  // The form a value has by its own type.
  void own_form(ValueId value) {
    if (convertible(value)) full_form_[at(value)] = value;
    if (given_type(value) == half_type_) half_form_[at(value)] = value;
  }

  // wanted_: some reader takes the value in 16 bits if it can have it so. What stays float32 to be
  // read, such as logits, is not rounded on its way there.
  void find_wanted() {
    wanted_.assign(original_.values.size(), false);
    for (std::size_t n = original_.nodes.size(); n-- > 0;) {
      const Node& node = original_.nodes[n];
      if (node.phase == Phase::update) continue;
      const bool passes_on =
          follows(node.op) &&
          std::any_of(node.outputs.begin(), node.outputs.end(),
                      [&](ValueId output) { return wanted_[at(output)] && !visible_[at(output)]; });
      if (!passes_on && !is_product(node.op)) continue;
      for (ValueId input : node.inputs) wanted_[at(input)] = true;
    }
  }

  // --- forms -------------------------------------------------------------------------------------

  // A parameter, a view of one, or several of them joined.
  bool is_parameter(ValueId value) const {
    if (original_.value(value).source == ir::Source::parameter) return true;
    if (original_.value(value).producer == kNone) return false;
    const Node& node = original_.node(original_.value(value).producer);
    return (node.op == Op::reshape || node.op == Op::concatenate) &&
           std::ranges::all_of(node.inputs, [&](ValueId part) { return is_parameter(part); });
  }

  ValueId cast(ValueId value, DataType type, const Node& reader) {
    result_.phase = reader.phase;
    result_.layer = reader.layer;
    return ops::cast(result_, value, type);
  }

  ValueId half(ValueId value, const Node& reader) {
    if (half_form_[at(value)] != kNone) return half_form_[at(value)];
    if (!convertible(value)) return value;
    return half_form_[at(value)] = cast(full_form_[at(value)], half_type_, reader);
  }

  ValueId full(ValueId value, const Node& reader) {
    if (!convertible(value)) return value;
    ValueId& form = full_form_[at(value)];
    if (form == kNone) form = cast(half_form_[at(value)], DataType::kFloat32, reader);
    return form;
  }

  // Float32 where that is there already: for ops that read either.
  ValueId either(ValueId value) const {
    if (full_form_[at(value)] != kNone) return full_form_[at(value)];
    return half_form_[at(value)] != kNone ? half_form_[at(value)] : value;
  }

  // --- nodes -------------------------------------------------------------------------------------

  void add(const Node& original) {
    Node node = original;
    if (node.phase == Phase::update) return add_full(std::move(node));
    if (node.op == Op::elementwise) return add_elementwise(std::move(node));
    if (node.op == Op::matmul) return add_matmul(std::move(node));
    if (node.op == Op::reduce) {
      node.inputs[0] = either(node.inputs[0]);
      return place(std::move(node));
    }
    if (!computes_half(node)) return add_full(std::move(node));
    const std::size_t halves = half_inputs(node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      node.inputs[i] = i < halves ? half(node.inputs[i], original) : full(node.inputs[i], original);
    }
    const std::size_t outputs = half_outputs(node);
    for (std::size_t i = 0; i < outputs; ++i) {
      const ValueId result = original.outputs[i];
      flows_half_[at(result)] = true;
      if (visible_[at(result)]) {
        node.outputs[i] = half_form_[at(result)] = new_half(result);
      } else {
        become_half(result);
      }
    }
    place(std::move(node));
    for (std::size_t i = 0; i < outputs; ++i) {
      const ValueId result = original.outputs[i];
      if (visible_[at(result)]) widen(half_form_[at(result)], result, original);
    }
  }

  bool computes_half(const Node& node) const {
    if (is_product(node.op)) return true;
    // What has 16 bits of its own is only moved.
    if (!follows(node.op) || !convertible(node.outputs[0])) return false;
    const auto flows = [&](ValueId value) { return flows_half_[at(value)]; };
    const ops::Properties& of = properties(node.op);
    if (of.follows_readers && wanted_[at(node.outputs[0])]) return true;
    if (of.follows_input == ops::kAnyInput) {
      return std::any_of(node.inputs.begin(), node.inputs.end(), flows);
    }
    return flows(node.inputs[static_cast<std::size_t>(of.follows_input)]);
  }

  // How many of the first inputs are in 16 bits; what is per channel is not.
  static std::size_t half_inputs(const Node& node) {
    const int first = properties(node.op).half_inputs;
    return first < 0 ? node.inputs.size() : static_cast<std::size_t>(first) - joined(node);
  }
  static std::size_t half_outputs(const Node& node) {
    const auto first = static_cast<std::size_t>(properties(node.op).half_outputs);
    return node.op == Op::attention_gradient ? first - joined(node) : first;
  }
  // How many operands fewer attention has where q, k and v are one.
  static std::size_t joined(const Node& node) {
    const auto* const attention = std::get_if<ir::AttentionAttributes>(&node.attributes);
    return attention != nullptr && attention->joined ? 2 : 0;
  }

  void add_full(Node node) {
    const Node reader = node;
    for (ValueId& input : node.inputs) input = full(input, reader);
    place(std::move(node));
  }

  void add_matmul(Node node) {
    const Node reader = node;
    for (ValueId& input : node.inputs) input = half(input, reader);
    const ValueId result = node.outputs[0];
    flows_half_[at(result)] = wanted_[at(result)];
    if (wanted_[at(result)] && !visible_[at(result)]) {
      become_half(result);
    } else {
      std::get<ir::MatmulAttributes>(node.attributes).result_type = DataType::kFloat32;
    }
    place(std::move(node));
  }

  // Reads and writes any mix: casts are needed for parameters alone, so that what is added to a
  // product can become part of it.
  void add_elementwise(Node node) {
    auto& attributes = std::get<ir::ElementwiseAttributes>(node.attributes);
    const Node reader = node;
    if (!attributes.result_types.empty()) return add_cast(std::move(node));
    const Shape shape = result_.type(node.outputs[0]).shape;
    const bool flows = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return flows_half_[at(input)] && original_.type(input).shape == shape;
    });
    bool halves = false;
    for (ValueId output : node.outputs) {
      flows_half_[at(output)] = flows && wanted_[at(output)];
      if (!flows_half_[at(output)]) continue;
      halves = true;
      if (!visible_[at(output)]) become_half(output);
    }
    for (ValueId& input : node.inputs) {
      const bool has_half = half_form_[at(input)] != kNone || flows_half_[at(input)];
      const bool narrows = halves && (has_half || is_parameter(input));
      input = narrows ? half(input, reader) : either(input);
    }
    attributes.result_types = stated_types(result_, node.inputs, node.outputs);
    place(std::move(node));
  }

  // A cast of the graph's own, at the border to what the caller brings or gets in 16 bits.
  void add_cast(Node node) {
    const ValueId source = node.inputs[0];
    const ValueId output = node.outputs[0];
    node.inputs[0] = full(source, node);
    const bool same = given_type(source) == half_type_ && convertible(output);
    place(std::move(node));
    if (!same) return;
    half_form_[at(output)] = source;
    flows_half_[at(output)] = true;
  }

  void become_half(ValueId value) {
    result_.value(value).type.data_type = half_type_;
    half_form_[at(value)] = value;
  }

  // A value like this one, in 16 bits.
  ValueId new_half(ValueId like) {
    ir::Value value = result_.value(like);
    value.type.data_type = half_type_;
    value.keep = false;
    value.writes = kNone;
    result_.values.push_back(std::move(value));
    return static_cast<ValueId>(result_.values.size()) - 1;
  }

  void place(Node node) {
    for (ValueId output : node.outputs) {
      const bool own = output < static_cast<ValueId>(original_.values.size());
      if (own && half_form_[at(output)] == kNone) own_form(output);
    }
    result_.append(std::move(node));
  }

  // The cast whose result is a value that is there already.
  void widen(ValueId half, ValueId result, const Node& of) {
    ir::ElementwiseAttributes attributes;
    attributes.list = {1, {{ir::Scalar::identity, 0, -1, 0, 0}}, {1}};
    attributes.result_types = {DataType::kFloat32};
    Node node;
    node.attributes = std::move(attributes);
    node.inputs = {half};
    node.outputs = {result};
    node.phase = of.phase;
    node.layer = of.layer;
    full_form_[at(result)] = result;
    place(std::move(node));
  }

  const DataType half_type_;
  const ir::Graph& original_;
  ir::Graph result_;
  // By value of the original:
  std::vector<bool> visible_;     // stays as it is
  std::vector<bool> wanted_;      // a reader would take 16 bits
  std::vector<bool> flows_half_;  // what follows its operands computes in 16 bits behind it
  std::vector<ValueId> half_form_;
  std::vector<ValueId> full_form_;
};

}  // namespace

ir::Graph with_precision(const ir::Graph& graph, Precision precision,
                         const std::vector<ValueId>& visible) {
  switch (precision) {
    case Precision::kFloat32:
      break;
    case Precision::kTf32:
      return with_tf32(graph);
    case Precision::kMixedBFloat16:
      return Mixing(graph, DataType::kBFloat16, visible).take();
    case Precision::kMixedFloat16:
      return Mixing(graph, DataType::kFloat16, visible).take();
  }
  return graph;
}

}  // namespace traingraph::passes
