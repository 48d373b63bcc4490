// What arithmetic leaves in a state for its gradient kernel.
#pragma once
#include <memory>
#include <vector>

#include "kernel.h"

struct MPSCNNArithmeticGradientStateInside {
  // For each value of the result, whether it lay between the bounds; empty until it was computed.
  std::shared_ptr<std::vector<bool>> passed = std::make_shared<std::vector<bool>>();
};

namespace apple {
// Null without a state.
std::shared_ptr<std::vector<bool>> clamp_mask(MPSState* state);
}  // namespace apple
