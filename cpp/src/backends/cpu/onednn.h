#pragma once

#include <string>
#include <vector>

#include "runtime/memory/host_backend.h"

// oneDNN's part of the CPU backend: convolution and its gradients, large matrix products, reorders.
// Nothing of oneDNN's own headers shows here.
namespace traingraph::cpu {

const std::vector<KernelEntry>& onednn_entries();

std::string onednn_version();  // "3.2.0"

}  // namespace traingraph::cpu
