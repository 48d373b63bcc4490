#pragma once

#include "backends/cuda/kernel/context.h"
#include "backends/cuda/products/lstm_steps.h"

namespace traingraph::cuda {

// All steps of an LSTM in one kernel. A cluster of blocks has kClusterSequences sequences, and
// keeps the weights in its registers. For .cu files only.
constexpr int kClusterUnits = 16, kClusterSequences = 8, kMostClusterBlocks = 16;

// Whether the device runs clusters for so many units and sequences.
template <class F>
bool prepare_lstm_clusters(const Steps& steps, const Context& context);

// `from`: the initial h, null for zeros. `to`: the last h.
template <class F>
void launch_lstm_clusters(const Steps& steps, const Forward<float>& forward, const F& functions,
                          const float* from, float* to, cudaStream_t stream);
template <class F>
void launch_lstm_gradient_clusters(const Steps& steps, const Backward<float>& backward,
                                   const F& functions, cudaStream_t stream);

}  // namespace traingraph::cuda
