#pragma once

#include <string>

#include <traingraph/graph.h>
#include <traingraph/loss.h>

namespace traingraph {

// Raises InvalidArgument for labels of a binary loss that it is not defined for: of hinge others
// than 0 and 1, of sigmoid cross entropy others than from 0 to 1. Arrays on a device are not read.
void check_label_values(const NamedData& labels, LossType type, const std::string& call);

}  // namespace traingraph
