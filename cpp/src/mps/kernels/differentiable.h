#pragma once

#include <functional>
#include <string>

#include "mps/recording/emission.h"

// Kernels that are one function of their source, and the gradient kernels that differentiate it.
namespace traingraph::mps {

// x (N, C, H, W) → y of the size (N, C, H, W) that the result image has.
using Form = std::function<ir::ValueId(Emission& e, ir::ValueId x, const Shape& result)>;

// x, … → y
OperationPtr forward_operation(std::string subject, Form form);
// dy, x, … → dx
OperationPtr gradient_operation(std::string subject, Form form);

}  // namespace traingraph::mps
