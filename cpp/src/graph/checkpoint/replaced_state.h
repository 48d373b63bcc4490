// A graph's state, replaced while no pass runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/checkpoint/given_values.h"

namespace traingraph {

// To be written; `host` of the tensor is locked.
void make_host_copy(Tensor& tensor);
void replace_parameter(GraphState& state, const TensorPtr& tensor, const TensorData& data);
void replace_optimizer_data(Tensor& tensor, std::vector<TensorData> data,
                            const std::vector<std::string>& slots);
void replace_number(GraphState& state, const std::string& name, std::int64_t value);
// What a step began with before is gone. Raises InvalidArgument where a later one is in flight and
// `source` was saved between the micro-batches of one.
void give_up_step(bool has_begun_step, const std::string& source, GraphState& state);
// All of it.
void replace_state(const Contents& contents, const Values& values, GraphState& state);

}  // namespace traingraph
