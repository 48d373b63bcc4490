#pragma once

#include <optional>

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

// What is added to a product before relu: a number per column, and a matrix of the result's shape.
// Positions among the node's inputs, or 0.
struct MatmulEpilogue {
  std::size_t bias = 0, matrix = 0;
  bool relu = false;
};

// The list as such an epilogue of one product; empty when it is any other list.
std::optional<MatmulEpilogue> matmul_epilogue(const ir::Graph& graph, const ir::Node& node,
                                              const ir::ScalarList& list,
                                              const std::vector<ir::ValueId>& extra);
// The node's own.
std::optional<MatmulEpilogue> matmul_epilogue(const ir::Graph& graph, const ir::Node& node);

// Whether the kernel for small products takes the node without an epilogue.
bool is_small_matmul(const ir::Graph& graph, const ir::Node& node);

}  // namespace traingraph::cuda
