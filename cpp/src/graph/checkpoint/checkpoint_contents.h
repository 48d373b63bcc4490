#pragma once

#include <string>
#include <vector>

#include "graph/run/state_numbers.h"
#include "graph/state/graph_state.h"

namespace traingraph {

// Of a step of micro-batches that has begun.
inline constexpr const char* kMicroBatches = "state.micro_batches";
inline constexpr const char* kSummed = "state.summed_micro_batches";
inline constexpr const char* kSummedRows = "state.summed_rows";

// Of one graph: its parameters, and for a training graph what its optimizer and its random numbers
// continue from.
struct Contents {
  NamedTensors parameters;
  NamedTensors untrained;          // constants that a training graph may have trained
  NamedTensors scaling;            // the loss scale, and the steps since it has changed
  NamedTensors updated;            // those with optimizer buffers
  NamedTensors resting;            // those that no update changes now: they may have such buffers
  NamedTensors summed;             // those with a sum of gradients over micro-batches
  std::vector<std::string> slots;  // names of the buffers of each
  std::vector<std::string> numbers;
};

Contents contents_of(const GraphState& state, bool with_training);

std::string slot_name(const std::string& parameter, const std::string& slot);
std::string sum_name(const std::string& parameter);

}  // namespace traingraph
