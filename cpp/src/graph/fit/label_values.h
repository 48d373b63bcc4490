#pragma once

#include <string>

#include <traingraph/graph.h>
#include <traingraph/loss.h>

namespace traingraph {

// Raises InvalidArgument for labels outside of 0 to 1 of a loss whose labels are there: hinge, log
// and sigmoid cross entropy. Arrays on a device are not read.
void check_label_values(const NamedData& labels, LossType type, const std::string& call);

}  // namespace traingraph
