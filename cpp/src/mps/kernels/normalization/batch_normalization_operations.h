#pragma once

#include <string>

#include <traingraph/mps/neuron.h>

#include "mps/recording/recording.h"

// What the four kernels of batch normalization write. Where one encoding has brought all of the
// batch, the four together are the two ops of ML Compute's layer; else they are sums over parts.
namespace traingraph::mps {

// x, gamma, beta [, mean, variance] → mean, variance. Constants: elements per channel before, the
// bits of epsilon.
OperationPtr statistics_operation(const std::string& subject);
// x, gamma, beta, mean, variance → y
OperationPtr normalization_operation(const std::string& subject, const NeuronDescriptor& neuron,
                                     double epsilon);
// dy, x, gamma, beta, mean, variance [, dgamma, dbeta] → dgamma, dbeta. Constants: whether it
// begins, the bits of epsilon.
OperationPtr statistics_gradient_operation(const std::string& subject,
                                           const NeuronDescriptor& neuron);
// dy, x, gamma, beta, mean, variance, dgamma, dbeta → dx. Constants: elements per channel in the
// whole batch, the bits of epsilon, the row and column of the result where x begins.
OperationPtr normalization_gradient_operation(const std::string& subject,
                                              const NeuronDescriptor& neuron);

}  // namespace traingraph::mps
