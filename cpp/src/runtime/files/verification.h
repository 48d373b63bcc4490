// What `python -m traingraph verify` has noted of this machine.
#pragma once

#include <string>
#include <vector>

namespace traingraph {

// What this version of a backend has passed on this device, as the lines behind the note's first
// one name it: PASS for the suites of tests, and kernels that were compared one by one.
std::vector<std::string> verified(const std::string& backend);

}  // namespace traingraph
