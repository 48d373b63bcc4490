// Compares a scalar list with those of ir/precompiled_lists.h, up to immediates and the order of
// inputs, so that elementwise ops find their compiled loop.
#include "backends/cpu/compiled_match.h"

#include <array>
#include <cstring>
#include <span>

#include "ir/precompiled_lists.h"

namespace traingraph::cpu {
namespace {

struct Description {
  const char* kinds;
  std::span<const ir::PrecompiledStep> steps;
  std::span<const int> results;
};

template <class... L>
constexpr std::array<Description, sizeof...(L)> described(ir::Lists<L...>) {
  return {{{L::kinds, L::steps, L::results}...}};
}
constexpr auto kLists = described(ir::PrecompiledLists());

// Pairs the inputs of both lists while walking them side by side.
class Pairing {
 public:
  Pairing(int compiled_inputs, int inputs)
      : compiled_inputs_(compiled_inputs), inputs_(inputs), input_of_(compiled_inputs, -1) {}

  bool same(int compiled, int other) {
    if (compiled < 0 || other < 0) return compiled == other;
    const bool is_input = other < inputs_;
    if (is_input != (compiled < compiled_inputs_)) return false;
    if (!is_input) return compiled - compiled_inputs_ == other - inputs_;
    int& slot = input_of_[static_cast<std::size_t>(compiled)];
    if (slot < 0) slot = other;
    return slot == other;
  }

  const std::vector<int>& inputs() const { return input_of_; }

 private:
  int compiled_inputs_;
  int inputs_;
  std::vector<int> input_of_;
};

std::optional<CompiledMatch> match(std::size_t index, const ir::ScalarList& list,
                                   const std::vector<OperandView>& views) {
  const Description& compiled = kLists[index];
  const int inputs = static_cast<int>(std::strlen(compiled.kinds));
  if (inputs != list.inputs || compiled.steps.size() != list.code.size() ||
      compiled.results.size() != list.results.size()) {
    return std::nullopt;
  }
  Pairing pairing(inputs, list.inputs);
  CompiledMatch found{index, {}, {}, {}};
  for (std::size_t k = 0; k < list.code.size(); ++k) {
    const ir::PrecompiledStep& step = compiled.steps[k];
    const ir::Instruction& code = list.code[k];
    if (step.function != code.function || !pairing.same(step.x, code.x) ||
        !pairing.same(step.y, code.y)) {
      return std::nullopt;
    }
    found.immediates.push_back({static_cast<float>(code.p), static_cast<float>(code.q)});
  }
  for (std::size_t k = 0; k < list.results.size(); ++k) {
    if (!pairing.same(compiled.results[k], list.results[k])) return std::nullopt;
  }
  found.inputs = pairing.inputs();
  for (std::size_t i = 0; i < found.inputs.size(); ++i) {
    if (found.inputs[i] < 0) return std::nullopt;
    const OperandView& view = views[static_cast<std::size_t>(found.inputs[i])];
    if (compiled.kinds[i] == 'v' && !view.dense()) return std::nullopt;
    if (compiled.kinds[i] == 's' && !view.number()) return std::nullopt;
    if (compiled.kinds[i] != 'c') continue;
    const std::optional<ChannelView> channels = view.by_channel();
    if (!channels || (found.channels && *found.channels != *channels)) return std::nullopt;
    found.channels = channels;
  }
  return found;
}

}  // namespace

std::optional<CompiledMatch> find_compiled(const ir::ScalarList& list,
                                           const std::vector<OperandView>& views) {
  for (std::size_t k = 0; k < std::size(kLists); ++k) {
    if (auto found = match(k, list, views)) return found;
  }
  return std::nullopt;
}

}  // namespace traingraph::cpu
