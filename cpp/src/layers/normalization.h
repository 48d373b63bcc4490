#pragma once

#include <traingraph/normalization.h>

#include "layers/emitter.h"

// What the normalizations have in common.
namespace traingraph::normalization {

// Raise a typed error that begins with the layer's kind.
void check_channels(const std::string& kind, std::int64_t channels);
void check_epsilon(const std::string& kind, float epsilon);
void check_momentum(const std::string& kind, float momentum);
// One element per channel; null is fine.
void check_per_channel(const std::string& kind, const TensorPtr& tensor, const char* what,
                       std::int64_t channels);

// Raises unless the only source is (N, C, …).
void expect_channels(Emitter& e, std::int64_t channels);

// running = momentum * running + (1 - momentum) * batch, which is (C).
void move_running(Emitter& e, const TensorPtr& running, ir::ValueId batch, double momentum);

// x gamma + beta; both are broadcast from `shape`.
ir::ValueId affine(Emitter& e, ir::ValueId x, const TensorParameter& gamma,
                   const TensorParameter& beta, const Shape& shape);

// Whether running numbers normalize: in inference, and where they are frozen.
bool uses_running(const Emitter& e, const TensorPtr& mean, const TensorPtr& variance);
// The only source (N, C, …) by running numbers, one per channel.
ir::ValueId by_running(Emitter& e, const TensorPtr& mean, const TensorPtr& variance,
                       const TensorParameter& gamma, const TensorParameter& beta, double epsilon);

}  // namespace traingraph::normalization
