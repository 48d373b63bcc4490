#pragma once

#include "runtime/backend.h"

namespace traingraph::metal {

// The GPU of a Mac: kernels of Metal Performance Shaders and hand-written shaders, one command
// buffer per run.
const Backend& backend();

}  // namespace traingraph::metal
