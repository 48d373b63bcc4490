#pragma once

#include <optional>

#include "ir/graph.h"

namespace traingraph::ir {

// What own kernels do to a result before they write it: add a second operand, then relu.
struct Ending {
  bool adds = false;  // input 1 of the list
  bool relu = false;
};

// The epilogue as an ending; empty when it is any other list.
std::optional<Ending> ending_of(const ScalarList& list);

// Whether a node has an epilogue or prologue, or gives or takes coefficients of batch norm, which
// only kernels compute that said so.
bool has_ending(const Node& node);

// What own kernels of gradients begin with: a gradient, or the sum of two, that counts only where a
// result of relu is above 0. Numbers of the list's inputs; -1: there is none.
struct Beginning {
  int dy = 0;
  int added = -1;
  int result = -1;
};

// The prologue as a beginning; empty when it is any other list.
std::optional<Beginning> beginning_of(const ScalarList& list);

// Whether a list is relu_gradient(dy, result), its operands in any order.
bool is_relu_gradient(const ScalarList& list);

}  // namespace traingraph::ir
