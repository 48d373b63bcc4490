#pragma once

#include "runtime/backend.h"

namespace traingraph::null {

// Plans everything, allocates and computes nothing: for tests of passes and plans.
const Backend& backend();

}  // namespace traingraph::null
