#pragma once

#include <optional>
#include <vector>

#include "backends/cpu/isa/elementwise.h"
#include "backends/cpu/operand_view.h"
#include "ir/scalar.h"

namespace traingraph::cpu {

// A graph's list that equals a compiled one.
struct CompiledMatch {
  std::size_t list;                     // in the order of ir::PrecompiledLists
  std::vector<int> inputs;              // the graph's input for each of the compiled list's
  std::vector<Immediates> immediates;   // per step
  std::optional<ChannelView> channels;  // set if it has 'c' operands
};

// `views` has one entry per input of the list.
std::optional<CompiledMatch> find_compiled(const ir::ScalarList& list,
                                           const std::vector<OperandView>& views);

}  // namespace traingraph::cpu
