#pragma once

#include "layers/emitter.h"

namespace traingraph {

// x with elements dropped as MLCDropoutLayer does while training; seed: Emitter::seed.
ir::ValueId dropped(Emitter& e, ir::ValueId x, double rate, std::uint64_t seed);

}  // namespace traingraph
