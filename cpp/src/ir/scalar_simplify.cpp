// Simplifies a scalar list: folds constants, skips identities, and computes equal results once.
#include <algorithm>
#include <optional>

#include "ir/scalar.h"

namespace traingraph::ir {
namespace {

class Simplifier {
 public:
  explicit Simplifier(const ScalarList& list) {
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

  ScalarList take() { return std::move(out_); }

 private:
  std::optional<double> constant(int reg) const {
    if (reg < out_.inputs) return std::nullopt;
    const Instruction& i = out_.code[static_cast<std::size_t>(reg - out_.inputs)];
    return i.function == Scalar::constant ? std::optional<double>(i.p) : std::nullopt;
  }

  int emit(const Instruction& instruction) {
    const auto twin = std::find(out_.code.begin(), out_.code.end(), instruction);
    if (twin != out_.code.end()) return out_.inputs + static_cast<int>(twin - out_.code.begin());
    out_.code.push_back(instruction);
    return out_.registers() - 1;
  }

  int scaled(int reg, double factor) {
    if (factor == 1) return reg;
    if (const auto c = constant(reg)) return emit({Scalar::constant, -1, -1, *c * factor, 0});
    if (reg >= out_.inputs) {
      const Instruction inner = out_.code[static_cast<std::size_t>(reg - out_.inputs)];
      if (inner.function == Scalar::scale) return scaled(inner.x, inner.p * factor);
    }
    return emit({Scalar::scale, reg, -1, factor, 0});
  }

  int add(const Instruction& i) {
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

}  // namespace

ScalarList simplified(const ScalarList& list) { return Simplifier(list).take(); }

}  // namespace traingraph::ir
