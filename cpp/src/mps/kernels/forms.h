#pragma once

#include <traingraph/mps/neuron.h>
#include <traingraph/mps/state.h>

#include "mps/recording/emission.h"

// What several kernels write as ops.
namespace traingraph::mps {

// Raises InvalidArgument unless the type and its data are known.
void check_neuron(const NeuronDescriptor& neuron, const std::string& who);
bool is_none(const NeuronDescriptor& neuron);
// f(x), x (N, C, H, W).
ir::ValueId neuron(Emission& e, const NeuronDescriptor& descriptor, ir::ValueId x);

// (C) → (1, C, 1, 1), in this type.
ir::ValueId broadcastable(Emission& e, ir::ValueId per_channel, DataType type);
// Sum over everything but channels, as (C).
ir::ValueId channel_sum(Emission& e, ir::ValueId x);

// x cut or left as it is, and the window over it, so that position 0 begins where the kernel's
// offset says and there are `rows` x `columns` positions. What lies beyond x is padding.
struct PlacedWindow {
  ir::ValueId x;
  ir::Window window;
};
PlacedWindow place_window(Emission& e, ir::ValueId x, const KernelWindow& window, std::int64_t rows,
                          std::int64_t columns);

}  // namespace traingraph::mps
