#pragma once

#include <string>
#include <vector>

#include <traingraph/device.h>
#include <traingraph/export.h>
#include <traingraph/layer.h>
#include <traingraph/tensor.h>

namespace traingraph {

// Why has_kernels says no: what the layer refuses about the sources' type, or the ops that the
// device has no kernels for. Empty where it has all.
TRAINGRAPH_API std::string why_without_kernels(const Layer& layer,
                                               const std::vector<TensorDescriptor>& sources,
                                               const Device& device);

}  // namespace traingraph
