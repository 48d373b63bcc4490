#pragma once

#include <memory>
#include <vector>

#include <traingraph/profile.h>

#include "runtime/program.h"

namespace traingraph {

// Where the time of a run went; `seconds` by node.
std::shared_ptr<const Profile> profile_of(const Program& program, Run run,
                                          const std::vector<double>& seconds, double total);

}  // namespace traingraph
