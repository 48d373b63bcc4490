// One LSTM layer and direction as an op, with peepholes and lengths, and its gradient.
#include <traingraph/errors.h>

#include "ir/scalar_gradient.h"
#include "ops/emit.h"

namespace traingraph::ops {
namespace {

using ir::kNone;
using ir::LstmAttributes;
using ir::LstmOperands;
using ir::Type;
using ir::ValueId;

constexpr std::size_t kOutput = 0, kHidden = 1, kCell = 2, kGates = 3, kFoundHidden = 4,
                      kFoundCells = 5, kCells = 6;

// Of gates (N, T, 4H), or (T, N, 4H).
struct Extents {
  std::int64_t sequences, steps, hidden;

  Extents(const Shape& gates, bool time_first)
      : sequences(gates[time_first ? 1 : 0]),
        steps(gates[time_first ? 0 : 1]),
        hidden(gates[2] / 4) {}
};

void expect_shape(const Inference& in, int operand, const Shape& shape, const char* what) {
  if (operand < 0) return;
  const Type& type = in.type(static_cast<std::size_t>(operand));
  if (type.shape == shape) return;
  in.fail(std::string("expected ") + what + " " + to_string(shape) + " but got " +
          to_string(type.shape));
}

void check_functions(const Inference& in, const std::vector<ir::ScalarList>& lists, int inputs) {
  for (const ir::ScalarList& list : lists) {
    const bool fits = lists.size() == 5 && list.inputs == inputs && list.results.size() == 1 &&
                      list.registers() <= LstmAttributes::kMostRegisters;
    if (!fits) in.fail("expected five short functions of " + std::to_string(inputs) + " numbers");
  }
}

// What both ops read besides; operand `gates` says how large all is.
Extents checked(const Inference& in, const LstmOperands& o, std::size_t gates) {
  const auto& a = in.get<LstmAttributes>();
  const auto count = static_cast<std::size_t>(o.count);
  in.expect_inputs(count, count);
  in.expect_rank(gates, 3, "gates");
  const Type& type = in.type(gates);
  const Extents e(type.shape, a.time_first);
  if (type.shape[2] % 4 != 0) in.fail("expected four gates but got " + to_string(type.shape));
  expect_shape(in, o.weights, {4 * e.hidden, e.hidden}, "weights");
  expect_shape(in, o.peepholes, {3, e.hidden}, "peepholes");
  expect_shape(in, o.lengths, {e.sequences}, "lengths");
  for (int i = 0; i < o.count; ++i) {
    const DataType own = in.type(static_cast<std::size_t>(i)).data_type;
    const DataType expected = i == o.lengths ? DataType::kInt32 : type.data_type;
    if (own == expected) continue;
    in.fail(std::string("expected ") + name(expected) + " but got " + name(own));
  }
  check_functions(in, a.activations, 1);
  check_functions(in, a.derivatives, 3);
  if (a.time_first && type.batched) in.fix_batch();
  for (int i : {o.hidden, o.cell, o.lengths}) {
    if (i >= 0 && in.type(static_cast<std::size_t>(i)).batched != type.batched) in.fix_batch();
  }
  return e;
}

Type of_steps(const Type& gates, bool time_first, std::int64_t width) {
  return {gates.data_type, {gates.shape[0], gates.shape[1], width}, gates.batched && !time_first};
}

Type of_state(const Type& gates, bool time_first, const Extents& e) {
  return {gates.data_type, {e.sequences, e.hidden}, gates.batched && !time_first};
}

std::vector<Type> infer(const Inference& in) {
  const auto& a = in.get<LstmAttributes>();
  const LstmOperands o = LstmOperands::of_forward(a);
  const Extents e = checked(in, o, 0);
  expect_shape(in, o.hidden, {e.sequences, e.hidden}, "an initial hidden state");
  expect_shape(in, o.cell, {e.sequences, e.hidden}, "an initial cell state");
  const Type sequence = of_steps(in.type(0), a.time_first, e.hidden);
  const Type state = of_state(in.type(0), a.time_first, e);
  std::vector<Type> results{sequence, state, state};
  if (!a.keeps) return results;
  results.insert(results.end(),
                 {of_steps(in.type(0), a.time_first, 4 * e.hidden), sequence, sequence});
  if (a.has_peepholes) results.push_back(sequence);
  return results;
}

std::vector<Type> infer_gradient(const Inference& in) {
  const auto& a = in.get<LstmAttributes>();
  const LstmOperands o = LstmOperands::of_gradient(a);
  const auto gates = static_cast<std::size_t>(o.gates);
  const Extents e = checked(in, o, gates);
  const Type sequence = of_steps(in.type(gates), a.time_first, e.hidden);
  const Type state = of_state(in.type(gates), a.time_first, e);
  expect_shape(in, o.all_gradient, sequence.shape, "a gradient");
  expect_shape(in, o.hidden_gradient, state.shape, "a gradient");
  expect_shape(in, o.cell_gradient, state.shape, "a gradient");
  expect_shape(in, o.found_cells, sequence.shape, "cells");
  return {in.type(gates), state, state};
}

// Gate k of (N, T, 4H).
ValueId gate(ir::Graph& graph, ValueId gates, std::int64_t k) {
  const std::int64_t hidden = graph.type(gates).shape[2] / 4;
  return apply1(graph, ir::Op::slice, ir::SliceAttributes{2, k * hidden, hidden}, {gates});
}

// Σ over sequences and steps of x y (N, T, H) → (1, H).
ValueId sum_of_products(ir::Graph& graph, ValueId x, ValueId y) {
  const ValueId product = binary(graph, ir::Scalar::multiply, x, y);
  const ValueId sum = reduce(graph, ir::ReduceKind::sum, product, {0, 1});
  return reshape(graph, sum, {1, graph.type(x).shape[2]});
}

// (N, T, W) as rows.
ValueId rows_of(ir::Graph& graph, ValueId x) {
  const Type type = graph.type(x);
  const std::int64_t width = type.shape[2];
  return reshape(graph, x, {type.elements() / width, width}, type.batched);
}

// The gradient of the gates' arguments is what that of all weights follows from: of U by the h that
// each step found, of peepholes by its c.
void gradient(Gradient& g) {
  auto a = g.get<LstmAttributes>();
  if (!a.keeps) throw InternalError("[lstm] a gradient of an op that keeps nothing");
  const LstmOperands o = LstmOperands::of_forward(a);
  const auto input = [&](int operand) { return g.input(static_cast<std::size_t>(operand)); };
  for (const ir::ScalarList& list : a.activations) {
    a.derivatives.push_back(ir::differentiated(list, {1}));
  }
  a.flows_all = g.result_gradient(kOutput) != kNone;
  a.flows_hidden = g.result_gradient(kHidden) != kNone;
  a.flows_cell = g.result_gradient(kCell) != kNone;
  std::vector<ValueId> inputs;
  for (std::size_t result : {kOutput, kHidden, kCell}) {
    if (g.result_gradient(result) != kNone) inputs.push_back(g.result_gradient(result));
  }
  if (inputs.empty()) return;
  inputs.insert(inputs.end(), {input(o.weights), g.result(kGates), g.result(kFoundCells)});
  if (a.has_peepholes) inputs.push_back(input(o.peepholes));
  if (a.has_lengths) inputs.push_back(input(o.lengths));
  const ir::NodeId node = apply(g.graph, ir::Op::lstm_gradient, a, std::move(inputs));
  const std::vector<ValueId> results = g.graph.node(node).outputs;
  const ValueId gates = results[0];
  g.set(0, gates);
  const auto wants = [&](int i) { return i >= 0 && g.wants(static_cast<std::size_t>(i)); };
  if (wants(o.weights)) {
    g.set(static_cast<std::size_t>(o.weights),
          matmul(g.graph, rows_of(g.graph, gates), rows_of(g.graph, g.result(kFoundHidden)), true,
                 false));
  }
  if (wants(o.hidden)) g.set(static_cast<std::size_t>(o.hidden), results[1]);
  if (wants(o.cell)) g.set(static_cast<std::size_t>(o.cell), results[2]);
  if (!wants(o.peepholes)) return;
  std::vector<ValueId> sums;
  for (const auto& [k, cells] :
       {std::pair<std::int64_t, std::size_t>{0, kFoundCells}, {1, kFoundCells}, {3, kCells}}) {
    sums.push_back(sum_of_products(g.graph, gate(g.graph, gates, k), g.result(cells)));
  }
  g.set(static_cast<std::size_t>(o.peepholes),
        apply1(g.graph, ir::Op::concatenate, ir::AxisAttributes{0}, std::move(sums)));
}

IntegerUse lengths(const ir::Graph& graph, const ir::Node& node) {
  const auto& a = std::get<LstmAttributes>(node.attributes);
  if (!a.has_lengths) return {};
  const auto operand = static_cast<std::size_t>(LstmOperands::of_forward(a).lengths);
  return {node.inputs[operand], 0, graph.type(node.inputs[0]).shape[a.time_first ? 0 : 1] + 1, true,
          true};
}

}  // namespace

const Definition lstm_definition{infer, gradient, {.integers = lengths}};
const Definition lstm_gradient_definition{infer_gradient, nullptr};

}  // namespace traingraph::ops
