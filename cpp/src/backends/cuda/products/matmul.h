#pragma once

#include "backends/cuda/kernel/node_kernel.h"
#include "ir/epilogue.h"

// The description of a matrix product that all of its kernels share.
namespace traingraph::cuda {

// Matrices at equal distances: how many, and how far apart in matrices.
struct MatrixAxis {
  std::int64_t extent, a, b;
};

// y (…, M, N) = alpha op(a) op(b), as one batched product per matrix of the `outer` axes.
struct MatrixProblem {
  std::int64_t rows, columns, inner;
  bool transpose_a, transpose_b;
  MatrixAxis batch{1, 0, 0};
  std::vector<MatrixAxis> outer;
};

MatrixProblem matrix_problem(const ir::Graph& graph, const ir::Node& node);

// Whether the product accepts this list as epilogue: one number per column is added, then relu.
bool matmul_fuses(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list,
                  const std::vector<ir::ValueId>& extra);
// Checks the node's epilogue.
Support supports_matmul_epilogue(const ir::Graph& graph, const ir::Node& node);

}  // namespace traingraph::cuda
