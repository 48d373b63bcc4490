#pragma once

#include <optional>
#include <vector>

#include <traingraph/class_description.h>

namespace traingraph {

// Apple's initialisers of tensors: by descriptor, shape, image, sequence lengths or data.
std::vector<std::vector<Argument>> tensor_forms();
TensorPtr make_tensor(const Given& given);

// What an optimizer keeps for the tensor, one array per buffer.
using DataList = std::vector<DataToRead>;
using Twins = std::vector<OptimizerDeviceData>;
void bind_optimizer_data(Tensor& tensor, const DataList& given, const std::optional<Twins>& twins);

}  // namespace traingraph
