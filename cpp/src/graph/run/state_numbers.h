#pragma once

#include <cstdint>
#include <string>

#include <traingraph/tensor.h>

namespace traingraph {

// What names begin with that only training needs: buffers of optimizers, and numbers.
inline constexpr const char* kOfOptimizer = "optimizer.";
inline constexpr const char* kOfState = "state.";
// Names of a checkpoint that are no tensor's.
inline constexpr const char* kTimeStep = "state.time_step";
inline constexpr const char* kForwardCount = "state.forward_count";
inline constexpr std::int64_t kMostForwardCount = std::int64_t{1} << 53;
inline constexpr const char* kRandomSeed = "state.random_seed";
// Of mixed_float16; a checkpoint of another precision is none the worse without them.
inline constexpr const char* kLossScale = "state.loss_scale";
inline constexpr const char* kGoodSteps = "state.good_steps";

// What is wrong with the number under one of these names, or with those of an optimizer's buffer:
// "expected … but got …". Empty where a graph of ours may have them. Type and shape are right.
std::string wrong_number(const std::string& name, const TensorData& data);

}  // namespace traingraph
