#pragma once

namespace traingraph {

// TRAINGRAPH_VERBOSE=dispatch: each refusal of a kernel is printed to standard error.
bool verbose_dispatch();

}  // namespace traingraph
