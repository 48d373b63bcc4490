#pragma once

namespace traingraph::cpu {

// Raises OutOfMemory where the system has no room for so many threads that begin work for this one.
// The OpenMP runtime would end the process. It keeps the threads that it has, so this is looked at
// once per thread and number.
void expect_team(int threads);

}  // namespace traingraph::cpu
