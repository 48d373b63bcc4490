// Recognizes the scalar lists that hand-written kernels take as epilogue (add, ReLU) or prologue
// (sum of gradients, ReLU gradient).
#include "ir/epilogue.h"

#include <algorithm>
#include <vector>

namespace traingraph::ir {

std::optional<AddReluEpilogue> add_relu_epilogue_of(const ScalarList& list) {
  AddReluEpilogue epilogue;
  if (list.empty()) return epilogue;
  if (list.inputs > 2 || list.results != std::vector<int>{list.registers() - 1}) return {};
  std::size_t next = 0;
  int current = 0;
  if (list.inputs == 2) {
    const Instruction& code = list.code[next++];
    const bool both = (code.x == 0 && code.y == 1) || (code.x == 1 && code.y == 0);
    if (code.function != Scalar::add || !both) return {};
    epilogue.adds = true;
    current = 2;
  }
  if (next < list.code.size()) {
    const Instruction& code = list.code[next++];
    if (code.function != Scalar::relu || code.x != current) return {};
    epilogue.relu = true;
  }
  if (next != list.code.size()) return {};
  return epilogue;
}

std::optional<GradientPrologue> gradient_prologue_of(const ScalarList& list) {
  GradientPrologue prologue;
  if (list.empty()) return prologue;
  // Each input is read once, by one of the list's two functions at most.
  std::vector<int> reads(static_cast<std::size_t>(list.inputs), 0);
  int current = -1;  // the register of the sum
  for (const Instruction& code : list.code) {
    const bool last = &code == &list.code.back();
    if (code.function == Scalar::add && &code == &list.code.front()) {
      prologue.dy = code.x;
      prologue.added = code.y;
      current = list.inputs;
    } else if (code.function == Scalar::relu_gradient && last) {
      if (current < 0) prologue.dy = code.x;
      if (current >= 0 && code.x != current) return {};
      prologue.result = code.y;
    } else {
      return {};
    }
  }
  for (int input : {prologue.dy, prologue.added, prologue.result}) {
    if (input >= list.inputs) return {};
    if (input >= 0) ++reads[static_cast<std::size_t>(input)];
  }
  const bool once = std::all_of(reads.begin(), reads.end(), [](int count) { return count == 1; });
  if (!once || list.results != std::vector<int>{list.registers() - 1}) return {};
  return prologue;
}

bool is_relu_gradient(const ScalarList& list) {
  const auto prologue = gradient_prologue_of(list);
  return prologue && prologue->added < 0 && prologue->result >= 0;
}

bool has_fused_work(const Node& node) {
  const auto* normalization = std::get_if<BatchNormAttributes>(&node.attributes);
  if (normalization != nullptr && normalization->coefficients != Coefficients::inside) return true;
  const auto* attention = std::get_if<AttentionAttributes>(&node.attributes);
  if (attention != nullptr && attention->joined) return true;
  return std::visit(
      [](const auto& attributes) {
        if constexpr (requires { attributes.epilogue; }) {
          return !attributes.epilogue.empty();
        } else {
          return false;
        }
      },
      node.attributes);
}

}  // namespace traingraph::ir
