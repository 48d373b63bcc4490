// A lowered graph's forward ops once more, in float64.
#include <algorithm>

#include "graph/gradients/float64_loss.h"
#include "graph/gradients/slopes.h"
#include "ops/emit.h"

namespace traingraph {
namespace {

using ir::kNone;
using ir::NodeId;
using ir::ValueId;

DataType in_float64(DataType type) { return is_floating_point(type) ? DataType::kFloat64 : type; }

// Types that ops state.
void widen_stated(ir::Attributes& attributes) {
  if (auto* a = std::get_if<ir::ElementwiseAttributes>(&attributes)) {
    for (DataType& type : a->result_types) type = in_float64(type);
  }
  if (auto* a = std::get_if<ir::MatmulAttributes>(&attributes)) {
    a->result_type = DataType::kInvalid;
  }
  if (auto* a = std::get_if<ir::OneHotAttributes>(&attributes)) a->type = in_float64(a->type);
  if (auto* a = std::get_if<ir::ConstantAttributes>(&attributes)) {
    a->type.data_type = in_float64(a->type.data_type);
  }
}

// The first `difference` of a list, through which no gradient flows though it has a slope.
int stop_in(const ir::ScalarList& list) {
  for (std::size_t k = 0; k < list.code.size(); ++k) {
    if (list.code[k].function == ir::Scalar::difference) return static_cast<int>(k);
  }
  return kNone;
}

// The list up to its k-th instruction, which is its result.
ir::ScalarList up_to(const ir::ScalarList& list, int k) {
  ir::ScalarList part = list;
  part.code.resize(static_cast<std::size_t>(k) + 1);
  part.results = {list.inputs + k};
  return part;
}

// The list with one input more, which the k-th instruction gives.
ir::ScalarList with_given(const ir::ScalarList& list, int k) {
  ir::ScalarList part = list;
  ++part.inputs;
  const auto renumber = [&](int& number) {
    if (number >= list.inputs) ++number;
  };
  for (ir::Instruction& instruction : part.code) {
    renumber(instruction.x);
    renumber(instruction.y);
  }
  for (int& result : part.results) renumber(result);
  part.code[static_cast<std::size_t>(k)] = {ir::Scalar::identity, list.inputs, -1, 0, 0};
  return part;
}

// Whether it gives numbers that it was given.
bool only_moves(ir::Op op) {
  switch (op) {
    case ir::Op::reshape:
    case ir::Op::transpose:
    case ir::Op::slice:
    case ir::Op::concatenate:
    case ir::Op::pad:
    case ir::Op::gather:
    case ir::Op::embedding:
    case ir::Op::select:
    case ir::Op::extremum:
    case ir::Op::one_hot:
      return true;
    default:
      return false;
  }
}

class Widening {
 public:
  Widening(const LoweredGraph& lowered, const std::set<TensorPtr>& stopped, const Shaking& shaking)
      : lowered_(lowered), from_(lowered.lowering.graph), shaking_(shaking) {
    out_.values.assign(from_.values.size(), kNone);
    out_.graph.layers = from_.layers;
    for (const ir::Node& node : from_.nodes) {
      if (node.phase == ir::Phase::forward) add(node);
    }
    for (const TensorPtr& tensor : stopped) stop(now(lowered.tensors.at(tensor.get())));
    out_.stopped.resize(out_.graph.values.size(), false);
  }

  Float64Graph take() { return std::move(out_); }

 private:
  // Sources are added where they are read first.
  ValueId now(ValueId value) {
    ValueId& known = out_.values[static_cast<std::size_t>(value)];
    if (known != kNone) return known;
    const ir::Value& source = from_.value(value);
    ir::Type type = source.type;
    type.data_type = in_float64(type.data_type);
    known = out_.graph.add_source(ir::Source::bound, static_cast<int>(value), type, source.name);
    return known;
  }

  void stop(ValueId value) {
    if (out_.stopped.size() < out_.graph.values.size()) {
      out_.stopped.resize(out_.graph.values.size(), false);
    }
    out_.stopped[static_cast<std::size_t>(value)] = true;
  }

  void add(const ir::Node& node) {
    out_.graph.layer = node.layer;
    ir::Attributes attributes = node.attributes;
    widen_stated(attributes);
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(now(input));
    if (auto* a = std::get_if<ir::ElementwiseAttributes>(&attributes)) split_stops(*a, inputs);
    if (node.op == ir::Op::embedding) {
      hold_padding(std::get<ir::EmbeddingAttributes>(attributes), inputs[0]);
    }
    const std::vector<ValueId> results = apply(node.op, std::move(attributes), std::move(inputs));
    for (std::size_t k = 0; k < results.size(); ++k) {
      const ValueId written = trained_by(node.outputs[k]);
      out_.values[static_cast<std::size_t>(node.outputs[k])] =
          written != kNone ? now(written) : results[k];
    }
  }

  // The trained parameter that this result replaces, whose gradient is that of the result.
  ValueId trained_by(ValueId value) const {
    const ValueId target = from_.value(value).writes;
    if (target == kNone) return kNone;
    const auto slot = static_cast<std::size_t>(from_.value(target).slot);
    const bool trains = std::ranges::count(lowered_.trained, lowered_.slots[slot].tensor) > 0;
    return trains ? target : kNone;
  }

  // The padding row of a table that is looked up has a slope, and no gradient.
  void hold_padding(const ir::EmbeddingAttributes& a, ValueId& table) {
    if (a.padding < 0) return;
    ir::Graph& graph = out_.graph;
    std::vector<double> moves(static_cast<std::size_t>(a.count), 1);
    moves[static_cast<std::size_t>(a.padding)] = 0;
    const ir::Type column{DataType::kFloat64, {a.count, 1}, false};
    const ValueId mask = ops::constant(graph, column, std::move(moves));
    const ValueId held = ops::unary(graph, ir::Scalar::identity, table);
    stop(held);
    const ValueId moved = ops::binary(graph, ir::Scalar::subtract, table, held);
    table = ops::binary(graph, ir::Scalar::add, held,
                        ops::binary(graph, ir::Scalar::multiply, moved, mask));
  }

  // Stops within a list become values, which can be held.
  void split_stops(ir::ElementwiseAttributes& a, std::vector<ValueId>& inputs) {
    for (int k = stop_in(a.list); k != kNone; k = stop_in(a.list)) {
      ir::ElementwiseAttributes before = a;
      before.list = up_to(a.list, k);
      before.result_types.clear();
      const ValueId held = apply(ir::Op::elementwise, before, inputs)[0];
      stop(held);
      a.list = with_given(a.list, k);
      inputs.push_back(held);
    }
  }

  std::vector<ValueId> apply(ir::Op op, ir::Attributes attributes, std::vector<ValueId> inputs) {
    ir::Graph& graph = out_.graph;
    const bool has_inputs = !inputs.empty();
    const NodeId node = ops::apply(graph, op, std::move(attributes), std::move(inputs));
    std::vector<ValueId> results = graph.node(node).outputs;
    for (ValueId& result : results) {
      DataType& type = graph.value(result).type.data_type;
      if (!is_floating_point(type)) continue;
      if (!has_inputs) {
        type = DataType::kFloat64;  // of a filled value
        continue;
      }
      result = ops::cast(graph, result, DataType::kFloat64);
      if (shaking_.size != 0 && !only_moves(op)) result = shaken(result);
    }
    return results;
  }

  ValueId shaken(ValueId value) {
    const ir::Type type = out_.graph.type(value);
    std::vector<double> factors;
    std::uint64_t number = static_cast<std::uint64_t>(value) << 40 | 1ull << 39;
    for (std::int64_t k = 0; k < type.elements(); ++k) {
      factors.push_back(shaking_.factor(number++));
    }
    const ValueId by = ops::constant(out_.graph, type, std::move(factors));
    return ops::binary(out_.graph, ir::Scalar::multiply, value, by);
  }

  const LoweredGraph& lowered_;
  const ir::Graph& from_;
  const Shaking shaking_;
  Float64Graph out_;
};

}  // namespace

double Shaking::factor(std::uint64_t number) const {
  if (size == 0) return 1;
  return (drawn_word(draw, number) & 1) != 0 ? 1 + size : 1 - size;
}

Float64Graph float64_graph(const LoweredGraph& lowered, const std::set<TensorPtr>& stopped,
                           const Shaking& shaking) {
  return Widening(lowered, stopped, shaking).take();
}

}  // namespace traingraph
