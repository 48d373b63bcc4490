#pragma once

#include <memory>

#include <traingraph/mps/state.h>

namespace traingraph::mps {

// A state that the caller holds.
inline StatePtr borrowed(State& state) { return {std::shared_ptr<State>(), &state}; }

}  // namespace traingraph::mps
