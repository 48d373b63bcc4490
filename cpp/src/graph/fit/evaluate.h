#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <traingraph/fit.h>

#include "graph/fit/samples.h"
#include "graph/state/graph_state.h"

namespace traingraph {

struct Scoring {
  const char* call;  // for messages
  std::int64_t batch;
  const std::vector<std::string>& metrics;
  const std::function<bool()>& goes_on;  // asked before each batch
  bool all_or_none;                      // of the samples, where that returns false
};

// Raises what evaluate_samples would of samples and metrics, and computes nothing. `call`: in whose
// name.
void check_scoring(GraphState& state, Samples& samples, const Scoring& scoring,
                   const char* call = "fit");
// Loss, accuracy and metrics of samples, in inference mode.
std::optional<Evaluation> evaluate_samples(GraphState& state, Samples& samples,
                                           const Scoring& scoring);

}  // namespace traingraph
