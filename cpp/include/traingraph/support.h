#pragma once

#include <string>
#include <vector>

#include <traingraph/device.h>
#include <traingraph/export.h>
#include <traingraph/layer.h>
#include <traingraph/tensor.h>

namespace traingraph {

// How a device computes a layer, forward and gradient.
struct KernelReport {
  // Why has_kernels says no: what the layer refuses about the sources' type, or the ops that the
  // device has no kernels for. Empty where it has all.
  std::string missing;
  // Ops without a kernel, which are written in ops that have one.
  std::vector<std::string> composed;
  // Ops that a device of a vendor's library runs by the portable loops of the reference, and those
  // that have kernels of the device; in some types an op may be among both.
  std::vector<std::string> looped, own;
};

TRAINGRAPH_API KernelReport kernels_of(const Layer& layer,
                                       const std::vector<TensorDescriptor>& sources,
                                       const Device& device);

// Ops that a backend of kernels for the CPU, "cpu" or "bnns", leaves to the reference
// implementation in every case; none of other backends.
TRAINGRAPH_API std::vector<std::string> looped_ops(const std::string& backend);

}  // namespace traingraph
