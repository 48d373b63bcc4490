// Copies of a graph's state, and what else a checkpoint asks of it, between two passes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "graph/checkpoint/checkpoint_contents.h"
#include "graph/state/begun_step.h"

namespace traingraph {

// Does the work where no pass runs.
void run_between(const GraphState& state, const std::function<void()>& work);
// Null where no step of micro-batches has begun.
BegunStepPtr begun_step(const GraphState& state);
std::int64_t number_of(const GraphState& state, const std::string& name);

// Raise InvalidArgument amid micro-batches of several ranks: each has a sum of its own then, which
// is none of the state of all.
void check_sums_are_whole(const GraphState& state);
void check_no_step_has_begun(const Contents& contents, const GraphState& state);

TensorData copy_of(const Tensor& tensor);
// Those that have optimizer buffers.
NamedTensors with_buffers(const Contents& contents);
NamedData copy_of(const Contents& contents, const GraphState& state);

}  // namespace traingraph
