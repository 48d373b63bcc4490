#pragma once

#include <string>

#include <traingraph/activation.h>

#include "ir/scalar.h"

namespace traingraph {

// Raises InvalidArgument for an unknown type, and for numbers that it does not take.
void check_activation(const ActivationDescriptor& descriptor, const std::string& subject);

// The activation of one number.
ir::ScalarList activation_list(const ActivationDescriptor& descriptor);

}  // namespace traingraph
