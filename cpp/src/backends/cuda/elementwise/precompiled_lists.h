// Matching of a graph's scalar list with the precompiled ones. For .cu files only.
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>
#include <vector>

#include "backends/cuda/tasks/precompiled_list_tasks.h"

namespace traingraph::cuda {

// Pairs the inputs of both lists, walking them side by side; empty if they differ. Element i is the
// input of `list` that the precompiled one has as input i.
template <class List>
std::vector<int> input_mapping(const ir::ScalarList& list) {
  constexpr int kInputs = kInputsOf<List>;
  if (list.inputs != kInputs || list.code.size() != std::size(List::steps) ||
      list.results.size() != std::size(List::results)) {
    return {};
  }
  std::vector<int> input_of(kInputs, -1);
  auto same = [&](int compiled, int other) {
    if (compiled < 0 || other < 0) return compiled == other;
    if (compiled >= kInputs || other >= kInputs) return compiled == other;
    int& slot = input_of[static_cast<std::size_t>(compiled)];
    if (slot < 0) slot = other;
    return slot == other;
  };
  for (std::size_t k = 0; k < list.code.size(); ++k) {
    const ir::PrecompiledStep& compiled = List::steps[k];
    const ir::Instruction& code = list.code[k];
    if (compiled.function != code.function || !same(compiled.x, code.x) ||
        !same(compiled.y, code.y)) {
      return {};
    }
  }
  for (std::size_t r = 0; r < list.results.size(); ++r) {
    if (!same(List::results[r], list.results[r])) return {};
  }
  for (int input : input_of) {
    if (input < 0) return {};
  }
  return input_of;
}

// Calls f with each list until one call returns true.
template <class... L>
bool any_of(ir::Lists<L...>, auto&& f) {
  return (f(L{}) || ...);
}
bool any_precompiled_list(auto&& f) { return any_of(Lists(), f); }

// The constants of a graph's list, for the precompiled one.
template <class List>
Immediates<float, kStepsOf<List>> immediates(const ir::ScalarList& list) {
  Immediates<float, kStepsOf<List>> result;
  for (std::size_t k = 0; k < list.code.size(); ++k) {
    result.p[k] = static_cast<float>(list.code[k].p);
    result.q[k] = static_cast<float>(list.code[k].q);
  }
  return result;
}

// Lists with inputs of kind 's', scalars of a step, are updates: all their other operands are
// dense.
template <class List>
constexpr bool kIsUpdate = std::string_view(List::kinds).find('s') != std::string_view::npos;

}  // namespace traingraph::cuda
