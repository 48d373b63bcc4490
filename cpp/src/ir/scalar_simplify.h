// Simplifies a scalar list: folds constants, skips identities, computes equal results once, and
// removes dead code.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "ir/scalar.h"

namespace traingraph::ir {

class Simplifier {
 public:
  constexpr explicit Simplifier(const ScalarList& list) {
    out_.inputs = list.inputs;
    std::vector<int> map;
    for (int i = 0; i < list.inputs; ++i) map.push_back(i);
    auto mapped = [&](int reg) { return reg < 0 ? -1 : map[static_cast<std::size_t>(reg)]; };
    for (Instruction instruction : list.code) {
      instruction.x = mapped(instruction.x);
      instruction.y = mapped(instruction.y);
      map.push_back(add(instruction));
    }
    for (int result : list.results) out_.results.push_back(mapped(result));
  }

  constexpr ScalarList take() { return std::move(out_); }

 private:
  constexpr std::optional<double> constant(int reg) const {
    if (reg < out_.inputs) return std::nullopt;
    const Instruction& i = out_.code[static_cast<std::size_t>(reg - out_.inputs)];
    return i.function == Scalar::constant ? std::optional<double>(i.p) : std::nullopt;
  }

  constexpr int emit(const Instruction& instruction) {
    const auto twin = std::find(out_.code.begin(), out_.code.end(), instruction);
    if (twin != out_.code.end()) return out_.inputs + static_cast<int>(twin - out_.code.begin());
    out_.code.push_back(instruction);
    return out_.registers() - 1;
  }

  constexpr int scaled(int reg, double factor) {
    if (factor == 1) return reg;
    if (const auto c = constant(reg)) return emit({Scalar::constant, -1, -1, *c * factor, 0});
    if (reg >= out_.inputs) {
      const Instruction inner = out_.code[static_cast<std::size_t>(reg - out_.inputs)];
      if (inner.function == Scalar::scale) return scaled(inner.x, inner.p * factor);
    }
    return emit({Scalar::scale, reg, -1, factor, 0});
  }

  constexpr int add(const Instruction& i) {
    switch (i.function) {
      case Scalar::identity:
        return i.x;
      case Scalar::scale:
        return scaled(i.x, i.p);
      case Scalar::multiply:
        // Zero times something may be NaN, and stays a multiplication.
        if (const auto c = constant(i.x); c && *c != 0) return scaled(i.y, *c);
        if (const auto c = constant(i.y); c && *c != 0) return scaled(i.x, *c);
        return emit(i);
      case Scalar::mask:
        if (const auto c = constant(i.y); c && *c != 0) return scaled(i.x, *c);
        return emit(i);
      case Scalar::negate:
        return scaled(i.x, -1);
      default:
        return emit(i);
    }
  }

  ScalarList out_;
};

// The same list with constants folded, identities skipped and equal results computed once.
// Inputs and results keep their numbers.
constexpr ScalarList simplified(const ScalarList& list) { return Simplifier(list).take(); }

// Removes instructions that no result needs and inputs that nothing reads. `kept` receives the old
// input numbers in order.
constexpr ScalarList without_dead_code(const ScalarList& list, std::vector<int>& kept) {
  std::vector<char> live(static_cast<std::size_t>(list.registers()), 0);
  for (int result : list.results) live[static_cast<std::size_t>(result)] = 1;
  for (std::size_t k = list.code.size(); k-- > 0;) {
    if (live[static_cast<std::size_t>(list.inputs) + k] == 0) continue;
    for (int operand : {list.code[k].x, list.code[k].y}) {
      if (operand >= 0) live[static_cast<std::size_t>(operand)] = 1;
    }
  }
  kept.clear();
  std::vector<int> map(static_cast<std::size_t>(list.registers()), -1);
  for (int i = 0; i < list.inputs; ++i) {
    if (live[static_cast<std::size_t>(i)] == 0) continue;
    map[static_cast<std::size_t>(i)] = static_cast<int>(kept.size());
    kept.push_back(i);
  }
  ScalarList result;
  result.inputs = static_cast<int>(kept.size());
  for (std::size_t k = 0; k < list.code.size(); ++k) {
    const std::size_t reg = static_cast<std::size_t>(list.inputs) + k;
    if (live[reg] == 0) continue;
    Instruction instruction = list.code[k];
    if (instruction.x >= 0) instruction.x = map[static_cast<std::size_t>(instruction.x)];
    if (instruction.y >= 0) instruction.y = map[static_cast<std::size_t>(instruction.y)];
    // The same computation twice (two derivatives often share one) is done once.
    const auto twin = std::find(result.code.begin(), result.code.end(), instruction);
    if (twin != result.code.end()) {
      map[reg] = result.inputs + static_cast<int>(twin - result.code.begin());
      continue;
    }
    result.code.push_back(instruction);
    map[reg] = result.registers() - 1;
  }
  for (int r : list.results) result.results.push_back(map[static_cast<std::size_t>(r)]);
  return result;
}

}  // namespace traingraph::ir
