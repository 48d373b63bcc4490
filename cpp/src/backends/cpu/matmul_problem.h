#pragma once

#include <optional>
#include <vector>

#include "backends/cpu/isa/elementwise.h"
#include "ir/graph.h"

namespace traingraph::cpu {

// What a node of op matmul multiplies: so many products of a (M, K) and b (K, N), all of the same
// distances between elements, whose results y (M, N) lie one behind the other.
struct MatmulProblem {
  std::int64_t matrices = 1, m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_inner = 0, b_inner = 0, b_column = 0;
  float alpha = 1;
  Shape lead, a_lead,
      b_lead;  // leading axes of results and operands, if there are several products

  // Where the operands of a product begin, in elements.
  std::int64_t a_begin(std::int64_t matrix) const;
  std::int64_t b_begin(std::int64_t matrix) const;

  double multiplications() const {
    return static_cast<double>(matrices * m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

// Leading axes of a are more rows where one matrix b serves all of them.
MatmulProblem matmul_problem_of(const ir::Graph& graph, const ir::Node& node);

// Whether both operands of a node have one type of 16 bits, and the result has it or float32.
bool multiplies_halves(const ir::Graph& graph, const ir::Node& node);

// An epilogue of a bias, then functions of one number: relu, or others that run as loops over rows.
struct MatmulTail {
  struct Function {
    ir::Scalar function;
    Immediates immediates;
  };
  bool adds = false;  // a bias, the list's input 1
  bool relu = false;  // alone; the loops of products compute it
  std::vector<Function> functions;
};
// Nothing where the list is something else.
std::optional<MatmulTail> matmul_tail_of(const ir::ScalarList& list);

// Whether a value is one number per column, float32 or of `half`: (N), (1, N), …
bool is_bias_of_columns(const ir::Value& value, std::int64_t columns,
                        DataType half = DataType::kFloat32);

}  // namespace traingraph::cpu
