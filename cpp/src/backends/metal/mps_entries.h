#pragma once

#include <memory>
#include <vector>

#include "backends/metal/kernel.h"

// The lines of the table whose kernels are Metal Performance Shaders'.
namespace traingraph::metal {

template <class K>
std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, Device& device) {
  return std::make_unique<K>(graph, node, device);
}

std::vector<KernelEntry> mps_matrix_entries();
std::vector<KernelEntry> mps_neuron_entries();
std::vector<KernelEntry> mps_convolution_entries();
std::vector<KernelEntry> mps_batch_norm_entries();
std::vector<KernelEntry> mps_pooling_entries();
std::vector<KernelEntry> mps_concatenation_entries();
std::vector<KernelEntry> named_kernel_entries();
// Of a node with one of the latter: Apple's pages do not say that it computes what its ops do.
bool is_on_trial(const ir::Node& node);

}  // namespace traingraph::metal
