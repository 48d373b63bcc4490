#pragma once

#include <optional>

#include "ir/graph.h"

namespace traingraph::ir {

// The epilogue of hand-written kernels: they add a second operand to a result, then relu.
struct AddReluEpilogue {
  bool adds = false;  // input 1 of the list
  bool relu = false;
};

// The epilogue in this form; empty when it is any other list.
std::optional<AddReluEpilogue> add_relu_epilogue_of(const ScalarList& list);

// Whether a node has an epilogue or prologue, gives or takes coefficients of batch norm, or is
// attention over one operand, which only kernels compute that said so.
bool has_fused_work(const Node& node);

// The prologue of hand-written gradient kernels: a gradient, or the sum of two, that counts only
// where a result of relu is above 0. Numbers of the list's inputs; -1: there is none.
struct GradientPrologue {
  int dy = 0;
  int added = -1;
  int result = -1;
};

// The prologue in this form; empty when it is any other list.
std::optional<GradientPrologue> gradient_prologue_of(const ScalarList& list);

// Whether a list is relu_gradient(dy, result), its operands in any order.
bool is_relu_gradient(const ScalarList& list);

}  // namespace traingraph::ir
