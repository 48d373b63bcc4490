#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "runtime/numbers/philox.h"

namespace traingraph {

// What is drawn for a check of gradients: the same in each.
inline std::uint32_t drawn_word(std::uint64_t draw, std::uint64_t number) {
  return philox::word_of(0x9e3779b97f4a7c15ull, draw, number);
}

// Difference quotients of a function at 0.
struct Quotients {
  double central = 0;
  double jump = 0;  // that to the right less that to the left
};

// Steps of differences: each an eighth of the one before. The usual one is tried first.
inline constexpr std::array kDifferenceSteps = {6.4e-3,    8e-4,        1e-4,         1.25e-5,
                                                1.5625e-6, 1.953125e-7, 2.44140625e-8};
inline constexpr double kLargestStep = kDifferenceSteps[0];
inline constexpr double kUsualStep = kDifferenceSteps[2];

struct Slope {
  double value = 0;
  double doubt = 0;  // how far quotients that agree where there is a slope are apart
};

// The slope at 0, from the two neighbouring steps that agree best. Of a smooth function central
// quotients err by a multiple of the square of the step, and the jump is a multiple of the step: at
// a kink within the steps neither holds. `noise`: what rounding may have changed a difference by;
// `enough`: a doubt that does, so that smaller steps are not tried.
Slope best_slope(const std::function<Quotients(double)>& quotients_at, double noise,
                 double enough = 0);

}  // namespace traingraph
