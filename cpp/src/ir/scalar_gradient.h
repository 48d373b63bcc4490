// Derivatives of scalar lists. The gradient columns of scalar.def are expressions: evaluating one
// appends instructions to the list under construction.
#pragma once

#include <optional>

#include "ir/scalar_expression.h"

namespace traingraph::ir {
namespace derivative {

struct None {};
constexpr None none;

constexpr std::optional<Expression> given(Expression e) { return e; }
constexpr std::optional<Expression> given(None) { return std::nullopt; }

struct Gradients {
  std::optional<Expression> x;
  std::optional<Expression> y;
};

// r and the operands are registers of the list under construction.
constexpr Gradients gradients_of(const Instruction& instruction, Expression dy, Expression r,
                                 Expression x, Expression y, bool want_x, bool want_y) {
  using namespace build;
  [[maybe_unused]] const double p = instruction.p;
  [[maybe_unused]] const double q = instruction.q;
  Gradients result;
  switch (instruction.function) {
#define TRAINGRAPH_SCALAR(name, arity, value, gradient_x, gradient_y) \
  case Scalar::name:                                                  \
    if (want_x) result.x = given(gradient_x);                         \
    if (want_y) result.y = given(gradient_y);                         \
    break;
#include "ir/scalar.def"
#undef TRAINGRAPH_SCALAR
  }
  return result;
}

}  // namespace derivative

// Reverse differentiation. The returned list takes the forward inputs, then the forward results,
// then one gradient per result, and gives one gradient per wanted input. It reads results where
// the table's derivative can. Inputs nothing reads are kept; remove them with without_dead_code.
constexpr ScalarList differentiated(const ScalarList& list, const std::vector<char>& wanted) {
  const int result_count = static_cast<int>(list.results.size());
  ScalarList out;
  out.inputs = list.inputs + 2 * result_count;

  // Registers of the forward list inside `out`. A register that is a result is read, not computed
  // again; everything else is recomputed, and what nothing needs disappears with dead code.
  std::vector<int> forward(static_cast<std::size_t>(list.registers()), 0);
  for (int i = 0; i < list.inputs; ++i) forward[static_cast<std::size_t>(i)] = i;
  std::vector<std::optional<int>> gradient(static_cast<std::size_t>(list.registers()),
                                           std::nullopt);
  auto accumulate = [&](int reg, int value) {
    auto& slot = gradient[static_cast<std::size_t>(reg)];
    slot = slot ? out.add(Scalar::add, *slot, value) : value;
  };
  std::vector<int> result_of(static_cast<std::size_t>(list.registers()), -1);
  for (int k = 0; k < result_count; ++k) {
    const int reg = list.results[static_cast<std::size_t>(k)];
    result_of[static_cast<std::size_t>(reg)] = k;
  }
  for (std::size_t k = 0; k < list.code.size(); ++k) {
    const std::size_t reg = static_cast<std::size_t>(list.inputs) + k;
    if (result_of[reg] >= 0) {
      forward[reg] = list.inputs + result_of[reg];
      continue;
    }
    const Instruction& i = list.code[k];
    forward[reg] = out.add(i.function, i.x < 0 ? -1 : forward[static_cast<std::size_t>(i.x)],
                           i.y < 0 ? -1 : forward[static_cast<std::size_t>(i.y)], i.p, i.q);
  }
  for (int k = 0; k < result_count; ++k) {
    accumulate(list.results[static_cast<std::size_t>(k)], list.inputs + result_count + k);
  }

  // What reaches a wanted input.
  std::vector<char> active(static_cast<std::size_t>(list.registers()), 0);
  for (int i = 0; i < list.inputs; ++i) {
    active[static_cast<std::size_t>(i)] = wanted[static_cast<std::size_t>(i)];
  }
  for (std::size_t k = 0; k < list.code.size(); ++k) {
    for (int operand : {list.code[k].x, list.code[k].y}) {
      if (operand >= 0 && active[static_cast<std::size_t>(operand)] != 0) {
        active[static_cast<std::size_t>(list.inputs) + k] = 1;
      }
    }
  }

  for (std::size_t k = list.code.size(); k-- > 0;) {
    const std::size_t reg = static_cast<std::size_t>(list.inputs) + k;
    if (!gradient[reg] || !active[reg]) continue;
    const Instruction& i = list.code[k];
    const bool want_x = i.x >= 0 && active[static_cast<std::size_t>(i.x)];
    const bool want_y = i.y >= 0 && active[static_cast<std::size_t>(i.y)];
    const Expression dy{&out, *gradient[reg]};
    const Expression r{&out, forward[reg]};
    const Expression x{&out, i.x < 0 ? -1 : forward[static_cast<std::size_t>(i.x)]};
    const Expression y{&out, i.y < 0 ? -1 : forward[static_cast<std::size_t>(i.y)]};
    const derivative::Gradients found = derivative::gradients_of(i, dy, r, x, y, want_x, want_y);
    if (found.x) accumulate(i.x, found.x->reg);
    if (found.y) accumulate(i.y, found.y->reg);
  }
  for (int i = 0; i < list.inputs; ++i) {
    if (!wanted[static_cast<std::size_t>(i)]) continue;
    const auto& slot = gradient[static_cast<std::size_t>(i)];
    out.results.push_back(slot ? *slot : out.add(Scalar::constant));
  }
  return out;
}

}  // namespace traingraph::ir
