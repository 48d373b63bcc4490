#pragma once

#include <traingraph/export.h>

namespace traingraph {

// Waits call this several times a second, on their own thread and without locks; what it throws
// ends the wait, and what was waited for goes on. Null, as at the start: nothing is called.
TRAINGRAPH_API void set_interruption_check(void (*check)());

}  // namespace traingraph
