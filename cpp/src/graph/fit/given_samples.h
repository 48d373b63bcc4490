#pragma once

#include <cstdint>
#include <string>

#include <traingraph/fit.h>
#include <traingraph/loss.h>

#include "graph/fit/samples.h"
#include "graph/state/graph_state.h"

// What fit, evaluate and predict take from their arguments. `call`: for messages.
namespace traingraph {

// The loss that the graph's result comes from.
const Loss& loss_of(const GraphState& state, const std::string& call);
// `scores`: with what the loss compares.
Samples samples_of(const GraphState& state, const FitArguments& arguments, bool scores,
                   const std::string& call);
// At most all samples; `asked` of 0 means that of the declared tensors.
std::int64_t batch_size_of(const GraphState& state, std::int64_t asked, std::int64_t samples,
                           const std::string& call);

}  // namespace traingraph
