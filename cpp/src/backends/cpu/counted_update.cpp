// Finds lists of which each result is maximum(where_nonzero(now, counts; -inf),
// where_nonzero(before, 1 - counts; -inf)): `now` with all its bits where `counts` is 1.
#include "backends/cpu/counted_update.h"

#include <limits>

#include "ir/scalar_simplify.h"

namespace traingraph::cpu {
namespace {

class Choices {
 public:
  explicit Choices(const ir::ScalarList& list) : list_(list) {}

  // Of a result that is such a choice; notes the input `counts`, which all have to share.
  std::optional<int> now(int result) {
    const ir::Instruction* const larger = made_by(result, ir::Scalar::maximum);
    const ir::Instruction* const first = larger == nullptr ? nullptr : where(larger->x);
    const ir::Instruction* const second = larger == nullptr ? nullptr : where(larger->y);
    if (first == nullptr || second == nullptr || first->y >= list_.inputs) return std::nullopt;
    if (counts_ < 0) counts_ = first->y;
    const ir::Instruction* const skips = made_by(second->y, ir::Scalar::subtract);
    if (first->y != counts_ || skips == nullptr || skips->y != counts_) return std::nullopt;
    const ir::Instruction* const one = made_by(skips->x, ir::Scalar::constant);
    if (one == nullptr || one->p != 1) return std::nullopt;
    return first->x;
  }

  int counts() const { return counts_; }

 private:
  const ir::Instruction* made_by(int reg, ir::Scalar function) const {
    if (reg < list_.inputs) return nullptr;
    const ir::Instruction& code = list_.code[static_cast<std::size_t>(reg - list_.inputs)];
    return code.function == function ? &code : nullptr;
  }

  const ir::Instruction* where(int reg) const {
    const ir::Instruction* const code = made_by(reg, ir::Scalar::where_nonzero);
    const bool else_least = code != nullptr && code->p == -std::numeric_limits<double>::infinity();
    return else_least ? code : nullptr;
  }

  const ir::ScalarList& list_;
  int counts_ = -1;
};

}  // namespace

std::optional<CountedUpdate> counted_update(const ir::Node& node) {
  auto attributes = std::get<ir::ElementwiseAttributes>(node.attributes);
  Choices choices(attributes.list);
  ir::ScalarList list = attributes.list;
  for (int& result : list.results) {
    const std::optional<int> now = choices.now(result);
    if (!now) return std::nullopt;
    result = *now;
  }
  if (choices.counts() < 0) return std::nullopt;  // without results
  std::vector<int> kept;
  CountedUpdate update{node, node.inputs[static_cast<std::size_t>(choices.counts())]};
  attributes.list = ir::without_dead_code(list, kept);
  update.node.attributes = std::move(attributes);
  update.node.inputs.clear();
  for (int k : kept) update.node.inputs.push_back(node.inputs[static_cast<std::size_t>(k)]);
  return update;
}

}  // namespace traingraph::cpu
