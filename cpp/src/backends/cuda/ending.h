#pragma once

#include <optional>

#include "ir/scalar.h"

namespace traingraph::cuda {

// What own kernels do to a result before they write it: add a second operand, then relu.
struct Ending {
  bool adds = false;  // input 1 of the list
  bool relu = false;
};

// The epilogue as an ending; empty when it is any other list.
std::optional<Ending> ending_of(const ir::ScalarList& list);

}  // namespace traingraph::cuda
