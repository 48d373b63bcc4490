// Compositions: a node that the backend has no kernel for becomes nodes that it can run. What a
// rule emits may itself be composed. A node stays as it is where any part of it cannot run: then
// the backend says what it lacks, and names the op that the layer has written.
#include <algorithm>
#include <iterator>
#include <map>
#include <type_traits>
#include <utility>

#include "ir/scalar_simplify.h"
#include "passes/compositions.h"
#include "passes/passes.h"
#include "runtime/threads/interruption.h"

namespace traingraph::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::Type;
using ir::ValueId;

struct Rule {
  Op op;
  Composition compose;
};

// Half of the results each: there are lists too long for a kernel.
std::vector<ValueId> compose_elementwise(ir::Graph& graph, const Node& node) {
  const auto& whole = std::get<ir::ElementwiseAttributes>(node.attributes);
  const auto count = static_cast<std::ptrdiff_t>(whole.list.results.size());
  if (count < 2) return {};
  std::vector<ValueId> results;
  for (const bool second : {false, true}) {
    const auto part = [&](const auto& list) {
      using List = std::decay_t<decltype(list)>;
      if (list.empty()) return List();
      return second ? List(list.begin() + count / 2, list.end())
                    : List(list.begin(), list.begin() + count / 2);
    };
    ir::ElementwiseAttributes half = whole;
    half.list.results = part(whole.list.results);
    half.result_types = part(whole.result_types);
    // What is left reads fewer operands, and has the shape of all.
    const Type& type = graph.type(node.outputs[0]);
    half.shape = type.shape;
    half.shape_batched = type.batched;
    std::vector<int> kept;
    half.list = ir::without_dead_code(half.list, kept);
    std::vector<ValueId> inputs;
    for (int k : kept) inputs.push_back(node.inputs[static_cast<std::size_t>(k)]);
    const ir::NodeId id = ops::apply(graph, Op::elementwise, std::move(half), std::move(inputs));
    const std::vector<ValueId>& outputs = graph.node(id).outputs;
    results.insert(results.end(), outputs.begin(), outputs.end());
  }
  return results;
}

// The node itself, in float32 where it has 16 bits.
std::vector<ValueId> same(ir::Graph& graph, const Node& node) {
  const ir::NodeId id = ops::apply(graph, node.op, node.attributes, node.inputs);
  return graph.node(id).outputs;
}

constexpr Rule kRules[] = {
    {Op::attention, compose_attention},
    {Op::attention_gradient, compose_attention_gradient},
    {Op::compare, compose_compare},
    {Op::elementwise, compose_elementwise},
    {Op::embedding, compose_embedding},
    {Op::embedding_gradient, compose_embedding_gradient},
    {Op::extremum, compose_extremum},
    {Op::limit_rows, compose_limit_rows},
    {Op::lstm, compose_lstm},
    {Op::lstm_gradient, compose_lstm_gradient},
    {Op::one_hot, compose_one_hot},
    {Op::row_norm, compose_row_norm},
    {Op::row_norm_gradient, compose_row_norm_gradient},
};

Composition composition_of(Op op) {
  const auto* const rule = std::ranges::find(kRules, op, &Rule::op);
  return rule == std::end(kRules) ? nullptr : rule->compose;
}

class Composing {
 public:
  Composing(const ir::Graph& graph, const Backend& backend)
      : original_(graph), backend_(backend), result_(graph) {
    result_.nodes.clear();
    for (const Node& node : graph.nodes) {
      check_compilation();
      if (composition_of(node.op) == nullptr) {
        result_.append(node);
      } else {
        add(node);
      }
    }
  }

  ir::Graph take() {
    result_.phase = original_.phase;
    result_.layer = original_.layer;
    result_.fixed_batch = original_.fixed_batch;
    return std::move(result_);
  }

 private:
  // Whether the backend can run what stands there now.
  bool add(Node node) {
    if (runs(node)) {
      result_.append(std::move(node));
      return true;
    }
    if (has_half(node) && replace(node, same)) return true;
    const Composition compose = composition_of(node.op);
    if (compose != nullptr && replace(node, compose)) return true;
    result_.append(std::move(node));
    return false;
  }

  // Whether it computes in 16 bits. The types of an elementwise op's results are its own.
  bool has_half(const Node& node) const {
    return node.op != Op::elementwise &&
           std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId input) { return ir::is_half(result_.type(input).data_type); });
  }

  // A view, and numbers that are written when the program is made, have no kernel.
  bool runs(const Node& node) const {
    return node.op == Op::reshape || node.op == Op::constant ||
           backend_.supports(result_, node).yes;
  }

  bool replace(const Node& original, Composition compose) {
    const std::size_t nodes = result_.nodes.size(), values = result_.values.size();
    bool all_run = false;
    for (Node& node : emitted(original, compose)) {
      all_run = add(std::move(node));
      if (!all_run) break;
    }
    if (all_run) return true;
    result_.nodes.erase(result_.nodes.begin() + static_cast<std::ptrdiff_t>(nodes),
                        result_.nodes.end());
    result_.values.erase(result_.values.begin() + static_cast<std::ptrdiff_t>(values),
                         result_.values.end());
    return false;
  }

  // What the rule emits, taken from the graph; the results are the node's own values. Rules see
  // float32 where the node has 16 bits.
  std::vector<Node> emitted(const Node& original, Composition compose) {
    const std::size_t first = result_.nodes.size();
    result_.phase = original.phase;
    result_.layer = original.layer;
    Node node = original;
    for (ValueId& input : node.inputs) {
      if (ir::is_half(result_.type(input).data_type)) {
        input = ops::cast(result_, input, DataType::kFloat32);
      }
    }
    if (auto* one_hot = std::get_if<ir::OneHotAttributes>(&node.attributes)) {
      if (ir::is_half(one_hot->type)) one_hot->type = DataType::kFloat32;
    }
    std::vector<ValueId> results = compose(result_, node);
    std::map<ValueId, ValueId> own;
    for (std::size_t k = 0; k < results.size(); ++k) {
      const DataType type = result_.type(original.outputs[k]).data_type;
      if (ir::is_half(type)) results[k] = ops::cast(result_, results[k], type);
      own[results[k]] = original.outputs[k];
    }
    std::vector<Node> nodes(
        std::make_move_iterator(result_.nodes.begin() + static_cast<std::ptrdiff_t>(first)),
        std::make_move_iterator(result_.nodes.end()));
    result_.nodes.resize(first);
    if (results.empty()) return {};
    for (Node& one : nodes) {
      for (auto* values : {&one.inputs, &one.outputs}) {
        for (ValueId& value : *values) {
          if (const auto found = own.find(value); found != own.end()) value = found->second;
        }
      }
    }
    return nodes;
  }

  const ir::Graph& original_;
  const Backend& backend_;
  ir::Graph result_;
};

}  // namespace

ir::Graph with_compositions(const ir::Graph& graph, const Backend& backend) {
  return Composing(graph, backend).take();
}

}  // namespace traingraph::passes
