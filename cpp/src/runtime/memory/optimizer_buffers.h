#pragma once

#include <string>
#include <string_view>

#include <traingraph/tensor.h>

namespace traingraph {

// What is wrong with the numbers of an optimizer's buffer of this name: "expected … but got …".
// Empty where an optimizer of ours may have them.
std::string wrong_buffer(std::string_view slot, const TensorData& data);

}  // namespace traingraph
