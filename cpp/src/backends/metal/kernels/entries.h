#pragma once

#include <memory>
#include <vector>

#include "backends/metal/device/kernel.h"

// The lines of the table whose kernels are Metal Performance Shaders'.
namespace traingraph::metal {

template <class K>
std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, Device& device) {
  return std::make_unique<K>(graph, node, device);
}

std::vector<KernelEntry> mps_matmul_entries();
std::vector<KernelEntry> mps_neuron_entries();
std::vector<KernelEntry> mps_convolution_entries();
std::vector<KernelEntry> mps_normalization_entries();
std::vector<KernelEntry> mps_pooling_entries();
std::vector<KernelEntry> mps_move_entries();
std::vector<KernelEntry> named_kernel_entries();

}  // namespace traingraph::metal
