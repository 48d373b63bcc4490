#include "backends/cpu/keeps_zero.h"

#include <optional>

#include "backends/reference/call.h"

namespace traingraph::cpu {
namespace {

using Known = std::optional<double>;  // empty: a number that only a run knows

// The products of 0 and an unknown (finite) number are 0; nothing else is concluded from half.
Known value_of(const ir::Instruction& code, Known x, Known y) {
  const int arity = ir::arity(code.function);
  if ((arity > 0 && !x) || (arity > 1 && !y)) {
    const bool zero = (x && *x == 0) || (y && *y == 0);
    if (code.function == ir::Scalar::multiply && zero) return 0.0;
    return std::nullopt;
  }
  return ir::scalar::evaluate<reference::StandardMath, double>(code.function, x.value_or(0),
                                                               y.value_or(0), code.p, code.q);
}

}  // namespace

bool keeps_zero(const ir::ScalarList& list, const std::vector<bool>& is_number) {
  std::vector<Known> known;
  for (int i = 0; i < list.inputs; ++i) {
    known.push_back(is_number[static_cast<std::size_t>(i)] ? Known{} : Known{0.0});
  }
  auto at = [&](int reg) { return reg < 0 ? Known{} : known[static_cast<std::size_t>(reg)]; };
  for (const ir::Instruction& code : list.code) {
    known.push_back(value_of(code, at(code.x), at(code.y)));
  }
  for (int result : list.results) {
    if (at(result) != Known{0.0}) return false;
  }
  return true;
}

}  // namespace traingraph::cpu
