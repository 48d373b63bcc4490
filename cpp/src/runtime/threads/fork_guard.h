#pragma once

namespace traingraph {

// Raises DeviceError in a child forked after this process has executed a graph: the thread pools of
// the parent do not exist there, and waiting for them would hang for ever.
void check_not_forked();

}  // namespace traingraph
