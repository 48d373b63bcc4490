#include "ir/ending.h"

namespace traingraph::ir {

std::optional<Ending> ending_of(const ScalarList& list) {
  Ending ending;
  if (list.empty()) return ending;
  if (list.inputs > 2 || list.results != std::vector<int>{list.registers() - 1}) return {};
  std::size_t next = 0;
  int current = 0;
  if (list.inputs == 2) {
    const Instruction& code = list.code[next++];
    const bool both = (code.x == 0 && code.y == 1) || (code.x == 1 && code.y == 0);
    if (code.function != Scalar::add || !both) return {};
    ending.adds = true;
    current = 2;
  }
  if (next < list.code.size()) {
    const Instruction& code = list.code[next++];
    if (code.function != Scalar::relu || code.x != current) return {};
    ending.relu = true;
  }
  if (next != list.code.size()) return {};
  return ending;
}

bool is_relu_gradient(const ScalarList& list) {
  return list.inputs == 2 && list.code.size() == 1 && list.results == std::vector<int>{2} &&
         list.code[0].function == Scalar::relu_gradient && list.code[0].x != list.code[0].y;
}

}  // namespace traingraph::ir
