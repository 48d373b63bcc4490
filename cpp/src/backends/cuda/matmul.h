#pragma once

#include "backends/cuda/node_kernel.h"
#include "ir/ending.h"

// What the kinds of matrix products share.
namespace traingraph::cuda {

// A run of matrices that lie at equal distances: how many, and how far apart in matrices.
struct MatrixAxis {
  std::int64_t extent, a, b;
};

// y (…, M, N) = alpha op(a) op(b) as one product per matrix of `outer` axes, each over the batch.
struct MatrixProblem {
  std::int64_t rows, columns, inner;
  bool transpose_a, transpose_b;
  MatrixAxis batch{1, 0, 0};
  std::vector<MatrixAxis> outer;
};

MatrixProblem matrix_problem(const ir::Graph& graph, const ir::Node& node);

// Whether the node's product may end in this list: one number per column is added, then relu.
bool matmul_fuses(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list,
                  const std::vector<ir::ValueId>& extra);
// The list that the node has, or the reason why not.
Support supports_matmul_ending(const ir::Graph& graph, const ir::Node& node);

}  // namespace traingraph::cuda
