#pragma once

#include "ops/op.h"

// Short forms for what layers, optimizers and gradient rules write often.
namespace traingraph::ops {

// A list over inputs; the results of the new node.
std::vector<ir::ValueId> elementwise(ir::Graph& graph, ir::ScalarList list,
                                     std::vector<ir::ValueId> inputs);
// One scalar function.
ir::ValueId unary(ir::Graph& graph, ir::Scalar function, ir::ValueId x, double p = 0, double q = 0);
ir::ValueId binary(ir::Graph& graph, ir::Scalar function, ir::ValueId x, ir::ValueId y,
                   double p = 0, double q = 0);
// Types are taken by value: adding a node moves the graph's own.
// As many numbers as the type has elements, or one for all.
ir::ValueId constant(ir::Graph& graph, ir::Type type, std::vector<double> numbers);
// A value of this type filled with one number.
ir::ValueId filled(ir::Graph& graph, ir::Type type, double number);
// The sum of two results of `pad` that have nothing at one place: all their sources in one op.
// kNone where they are not such.
ir::ValueId beside(ir::Graph& graph, ir::ValueId a, ir::ValueId b);
// x in another floating-point type; x itself when it has that.
ir::ValueId cast(ir::Graph& graph, ir::ValueId x, DataType type);
// x broadcast to the type's shape.
ir::ValueId broadcast(ir::Graph& graph, ir::ValueId x, ir::Type type);
// x summed over everything that `type` does not have: the adjoint of broadcast.
ir::ValueId reduce_to(ir::Graph& graph, ir::ValueId x, ir::Type type);
ir::ValueId reduce(ir::Graph& graph, ir::ReduceKind kind, ir::ValueId x, std::vector<int> axes);
// Reduces every axis and drops them all: a scalar of rank 0.
ir::ValueId reduce_all(ir::Graph& graph, ir::ReduceKind kind, ir::ValueId x);
ir::ValueId reshape(ir::Graph& graph, ir::ValueId x, Shape shape, bool batched = false);
ir::ValueId matmul(ir::Graph& graph, ir::ValueId a, ir::ValueId b, bool transpose_a,
                   bool transpose_b, double alpha = 1);

// NumPy's broadcasting over shapes aligned at the back; false when they do not fit.
bool broadcast_shapes(const Shape& a, const Shape& b, Shape& result);

}  // namespace traingraph::ops
