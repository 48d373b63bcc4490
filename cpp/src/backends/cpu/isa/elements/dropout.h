#pragma once

#include <cstdint>

#include "ir/attributes.h"

namespace traingraph::cpu {

struct DropoutLoops {
  // y[k] = 0 where element `first` + k of the mask is dropped, else x[k] / (1 - rate), for k < n.
  void (*drop)(const ir::DropoutAttributes& attributes, std::int64_t step, std::int64_t first,
               const float* x, float* y, std::int64_t n);
};

}  // namespace traingraph::cpu
