#include "backends/cpu/ending.h"

namespace traingraph::cpu {

std::optional<Ending> ending_of(const ir::ScalarList& list) {
  Ending ending;
  if (list.empty()) return ending;
  if (list.inputs > 2 || list.results != std::vector<int>{list.registers() - 1}) return {};
  std::size_t next = 0;
  int current = 0;
  if (list.inputs == 2) {
    const ir::Instruction& code = list.code[next++];
    const bool both = (code.x == 0 && code.y == 1) || (code.x == 1 && code.y == 0);
    if (code.function != ir::Scalar::add || !both) return {};
    ending.adds = true;
    current = 2;
  }
  if (next < list.code.size()) {
    const ir::Instruction& code = list.code[next++];
    if (code.function != ir::Scalar::relu || code.x != current) return {};
    ending.relu = true;
  }
  if (next != list.code.size()) return {};
  return ending;
}

}  // namespace traingraph::cpu
