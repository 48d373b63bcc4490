#include "graph/gradients/slopes.h"

#include <cmath>
#include <limits>

namespace traingraph {

Slope best_slope(const std::function<Quotients(double)>& quotients_at, double noise,
                 double enough) {
  Slope best{0, std::numeric_limits<double>::infinity()};
  Quotients before = quotients_at(kDifferenceSteps[0]);
  for (std::size_t k = 1; k < kDifferenceSteps.size(); ++k) {
    const Quotients now = quotients_at(kDifferenceSteps[k]);
    const double rest = (now.central - before.central) / 63;
    // Nine times the rest: where the second derivative jumps, errors are multiples of the step.
    const double doubt =
        9 * std::abs(rest) + std::abs(now.jump - before.jump / 8) + noise / kDifferenceSteps[k];
    if (doubt < best.doubt) best = {now.central + rest, doubt};
    if (best.doubt <= enough) break;
    before = now;
  }
  return best;
}

}  // namespace traingraph
