#pragma once

#include <string>

namespace traingraph {

// Whether the note of Platform::verification_file says that this backend has passed its tests.
bool is_verified(const std::string& backend);

}  // namespace traingraph
