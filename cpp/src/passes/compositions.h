#pragma once

#include <vector>

#include "ops/emit.h"

// Ops written in others, by ops that every backend with arithmetic of its own has: scalar lists,
// sums, products, pooling, batch norm, moved and picked elements.
namespace traingraph::passes {

// Emits what the node computes and returns its results; none where it has no such form. Operands
// and results are float32 or float64, or no floating-point numbers.
using Composition = std::vector<ir::ValueId> (*)(ir::Graph&, const ir::Node&);

std::vector<ir::ValueId> compose_attention(ir::Graph& graph, const ir::Node& node);
std::vector<ir::ValueId> compose_attention_gradient(ir::Graph& graph, const ir::Node& node);
std::vector<ir::ValueId> compose_compare(ir::Graph& graph, const ir::Node& node);
std::vector<ir::ValueId> compose_embedding(ir::Graph& graph, const ir::Node& node);
std::vector<ir::ValueId> compose_embedding_gradient(ir::Graph& graph, const ir::Node& node);
std::vector<ir::ValueId> compose_extremum(ir::Graph& graph, const ir::Node& node);
std::vector<ir::ValueId> compose_limit_rows(ir::Graph& graph, const ir::Node& node);
std::vector<ir::ValueId> compose_lstm(ir::Graph& graph, const ir::Node& node);
std::vector<ir::ValueId> compose_lstm_gradient(ir::Graph& graph, const ir::Node& node);
std::vector<ir::ValueId> compose_one_hot(ir::Graph& graph, const ir::Node& node);
std::vector<ir::ValueId> compose_row_norm(ir::Graph& graph, const ir::Node& node);
std::vector<ir::ValueId> compose_row_norm_gradient(ir::Graph& graph, const ir::Node& node);

// 1 where x is 0, else 0: of NaN 0.
inline ir::ValueId marks_of_zero(ir::Graph& graph, ir::ValueId x) {
  ir::ScalarList list{1, {}, {}};
  const int zero = list.add(ir::Scalar::constant, -1, -1, 0);
  list.results = {list.add(ir::Scalar::where_nonzero, zero, 0, 1)};
  return ops::elementwise(graph, std::move(list), {x})[0];
}

// One number that is broadcast to any shape.
inline ir::ValueId number(ir::Graph& graph, DataType type, double value) {
  return ops::filled(graph, {type, {}, false}, value);
}

}  // namespace traingraph::passes
