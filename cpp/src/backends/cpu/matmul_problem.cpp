// What a node of op matmul multiplies, and the epilogues that kernels of products compute.
#include "backends/cpu/matmul_problem.h"

#include <algorithm>

namespace traingraph::cpu {
namespace {

// The matrix that product `index` over leading axes `lead` reads of an operand with its own leading
// axes: those of extent 1 stay at 0.
std::int64_t matrix_of(const Shape& own, const Shape& lead, std::int64_t index) {
  std::int64_t matrix = 0, step = 1;
  for (std::size_t back = 1; back <= own.size(); ++back) {
    const std::int64_t extent = lead[lead.size() - back];
    if (own[own.size() - back] > 1) matrix += index % extent * step;
    step *= own[own.size() - back];
    index /= extent;
  }
  return matrix;
}

}  // namespace

std::int64_t MatmulProblem::a_begin(std::int64_t matrix) const {
  return matrix_of(a_lead, lead, matrix) * m * k;
}

std::int64_t MatmulProblem::b_begin(std::int64_t matrix) const {
  return matrix_of(b_lead, lead, matrix) * k * n;
}

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
  const auto lead_of = [](const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); };
  p.matrices = element_count(lead_of(y));
  const bool one_b = element_count(lead_of(b)) == 1;
  const bool all_a = element_count(lead_of(a)) == p.matrices;
  if (p.matrices == 1) return p;
  if (!attributes.transpose_a && one_b && all_a) {
    p.m *= p.matrices;
    p.matrices = 1;
    return p;
  }
  p.lead = lead_of(y);
  p.a_lead = lead_of(a);
  p.b_lead = lead_of(b);
  return p;
}

bool multiplies_halves(const ir::Graph& graph, const ir::Node& node) {
  const DataType half = graph.type(node.inputs[0]).data_type;
  const DataType result = graph.type(node.outputs[0]).data_type;
  return ir::is_half(half) && graph.type(node.inputs[1]).data_type == half &&
         (result == half || result == DataType::kFloat32);
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

bool is_bias_of_columns(const ir::Value& value, std::int64_t columns, DataType half) {
  const Shape& shape = value.type.shape;
  return !shape.empty() && shape.back() == columns && element_count(shape) == columns &&
         value.layout.blocks.empty() &&
         (value.type.data_type == DataType::kFloat32 || value.type.data_type == half);
}

}  // namespace traingraph::cpu
