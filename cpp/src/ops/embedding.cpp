// Rows of a table by index, their gradient, and the limit of their norms.
#include "ops/emit.h"
#include "ops/indices.h"

namespace traingraph::ops {
namespace {

using ir::EmbeddingAttributes;
using ir::Type;

void expect_table(const Inference& in, const Type& table) {
  if (table.rank() != 2) {
    in.fail("expected a table of two axes but got " + to_string(table.shape));
  }
  if (table.batched) in.fix_batch();
}

// table (count, dimension), indices (…) → rows (…, dimension); zeros for an index outside
std::vector<Type> infer(const Inference& in) {
  in.expect_inputs(2, 2);
  const Type& table = in.type(0);
  expect_table(in, table);
  expect_indices(in, 1);
  Type rows{table.data_type, in.type(1).shape, in.type(1).batched};
  rows.shape.push_back(table.shape[1]);
  return {rows};
}

void gradient(Gradient& g) {
  auto attributes = g.get<EmbeddingAttributes>();
  attributes.count = g.graph.type(g.input(0)).shape[0];
  g.set(0,
        apply1(g.graph, ir::Op::embedding_gradient, attributes, {g.result_gradient(), g.input(1)}));
}

// drows (…, dimension), indices (…) → dtable (count, dimension), overwritten: each row is the sum
// of what its picks get, in their order, or their mean
std::vector<Type> infer_gradient(const Inference& in) {
  in.expect_inputs(2, 2);
  expect_indices(in, 1);
  Shape expected = in.type(1).shape;
  const Shape& rows = in.type(0).shape;
  if (!rows.empty()) expected.push_back(rows.back());
  if (rows != expected) {
    in.fail("expected gradients " + to_string(in.type(1).shape) + " and one axis more but got " +
            to_string(rows));
  }
  const std::int64_t count = in.get<EmbeddingAttributes>().count;
  if (count < 1) in.fail("expected a count of 1 or more but got " + std::to_string(count));
  return {{in.type(0).data_type, {count, rows.back()}, false}};
}

// table, indices (…) → the table, its rows of these indices scaled down to the largest norm
std::vector<Type> infer_limit(const Inference& in) {
  in.expect_inputs(2, 2);
  expect_table(in, in.type(0));
  expect_indices(in, 1);
  return {in.type(0)};
}

// The limit stands for the table's own number: what flows back passes it as it is.
void gradient_of_limit(Gradient& g) { g.set(0, g.result_gradient()); }

IntegerUse picks(const ir::Graph& graph, const ir::Node& node) {
  return {node.inputs[1], 0, graph.type(node.inputs[0]).shape[0]};
}

}  // namespace

const Definition embedding_definition{infer, gradient, {.integers = picks}};
const Definition embedding_gradient_definition{infer_gradient, nullptr};
const Definition limit_rows_definition{infer_limit, gradient_of_limit};

}  // namespace traingraph::ops
