#pragma once

#include <vector>

#include "ir/scalar.h"

namespace traingraph::cpu {

// Whether every result is 0 where all inputs but the numbers are 0: what a list must promise to run
// over padding. `is_number` has one entry per input.
bool keeps_zero(const ir::ScalarList& list, const std::vector<bool>& is_number);

}  // namespace traingraph::cpu
