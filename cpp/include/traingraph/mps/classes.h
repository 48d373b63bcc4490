#pragma once

#include <vector>

#include <traingraph/class_description.h>

namespace traingraph::mps {

// The classes of kernels, each behind its base. What an object's first form takes and what its
// properties can be set to is what it consists of: copies and archives have that.
TRAINGRAPH_API const std::vector<ClassDescription>& kernel_classes();
// The classes of nodes, each behind its base. What begins with an underscore is for those who write
// graphs down.
TRAINGRAPH_API const std::vector<ClassDescription>& node_classes();

// The classes of states, each behind its base.
TRAINGRAPH_API const std::vector<ClassDescription>& state_classes();
// What kernels and states are made of, and told: values.
TRAINGRAPH_API const std::vector<ClassDescription>& value_classes();

}  // namespace traingraph::mps
