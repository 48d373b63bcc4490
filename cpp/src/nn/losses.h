// Losses by the names that Keras and PyTorch have for them.
#pragma once

#include <string>

#include <traingraph/loss.h>

namespace traingraph::nn {

// Raises InvalidArgument of this subject that lists the names.
LossType loss_named(const std::string& name, const std::string& subject);

}  // namespace traingraph::nn
