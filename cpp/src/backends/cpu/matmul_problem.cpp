// What a node of op matmul multiplies, and the epilogues that kernels of products compute.
#include "backends/cpu/matmul_problem.h"

#include <algorithm>

namespace traingraph::cpu {
namespace {

// The matrix of an operand that product `index` over leading axes `lead` reads: axes of extent 1
// stay at 0.
std::int64_t matrix_of(const Shape& operand, const Shape& lead, std::int64_t index) {
  std::int64_t matrix = 0, step = 1;
  for (std::size_t back = 1; back <= lead.size(); ++back) {
    const std::int64_t extent = lead[lead.size() - back];
    const std::int64_t at = index % extent;
    index /= extent;
    if (back + 2 > operand.size()) continue;
    const std::int64_t own = operand[operand.size() - 2 - back];
    if (own > 1) matrix += at * step;
    step *= own;
  }
  return matrix;
}

}  // namespace

MatmulProblem matmul_problem_of(const ir::Graph& graph, const ir::Node& node) {
  const auto& attributes = std::get<ir::MatmulAttributes>(node.attributes);
  const Shape& a = graph.type(node.inputs[0]).shape;
  const Shape& b = graph.type(node.inputs[1]).shape;
  const Shape& y = graph.type(node.outputs[0]).shape;
  MatmulProblem p;
  p.m = y[y.size() - 2];
  p.n = y[y.size() - 1];
  p.k = a[a.size() - (attributes.transpose_a ? 2 : 1)];
  p.alpha = static_cast<float>(attributes.alpha);
  p.a_row = attributes.transpose_a ? 1 : p.k;
  p.a_inner = attributes.transpose_a ? p.m : 1;
  p.b_inner = attributes.transpose_b ? 1 : p.n;
  p.b_column = attributes.transpose_b ? p.k : 1;
  const Shape lead(y.begin(), y.end() - 2);
  const std::int64_t a_elements = p.m * p.k, b_elements = p.k * p.n;
  const bool one_b = element_count(b) == b_elements;
  const bool all_a = element_count(a) == element_count(lead) * a_elements;
  if (!attributes.transpose_a && one_b && all_a) {
    p.m *= element_count(lead);
    p.a_begin = p.b_begin = {0};
    return p;
  }
  p.matrices = element_count(lead);
  for (std::int64_t matrix = 0; matrix < p.matrices; ++matrix) {
    p.a_begin.push_back(matrix_of(a, lead, matrix) * a_elements);
    p.b_begin.push_back(matrix_of(b, lead, matrix) * b_elements);
  }
  return p;
}

std::optional<MatmulTail> matmul_tail_of(const ir::ScalarList& list) {
  MatmulTail tail;
  if (list.empty()) return tail;
  if (list.inputs > 2 || list.results.size() != 1) return {};
  int current = 0;  // the register that holds the result so far
  for (std::size_t i = 0; i < list.code.size(); ++i) {
    const ir::Instruction& code = list.code[i];
    const bool both = (code.x == current && code.y == 1) || (code.x == 1 && code.y == current);
    if (i == 0 && list.inputs == 2 && code.function == ir::Scalar::add && both) {
      tail.adds = true;
    } else if (ir::arity(code.function) == 1 && code.x == current) {
      tail.functions.push_back(
          {code.function, {static_cast<float>(code.p), static_cast<float>(code.q)}});
    } else {
      return {};
    }
    current = list.inputs + static_cast<int>(i);
  }
  if (list.results[0] != current || tail.adds != (list.inputs == 2)) return {};
  if (tail.functions.size() == 1 && tail.functions[0].function == ir::Scalar::relu) {
    tail.relu = true;
    tail.functions.clear();
  }
  return tail;
}

bool is_bias_of_columns(const ir::Value& value, std::int64_t columns) {
  const Shape& shape = value.type.shape;
  return !shape.empty() && shape.back() == columns && element_count(shape) == columns &&
         value.layout.blocks.empty() && value.type.data_type == DataType::kFloat32;
}

}  // namespace traingraph::cpu
