#pragma once

#include <cstdint>

namespace traingraph::testing {

// Calls of operator new and their bytes since the process started, by this module's copy of the
// core in all threads. A test takes the difference around what must not allocate.
struct Allocations {
  std::int64_t count;
  std::int64_t bytes;
};
Allocations allocations();

}  // namespace traingraph::testing
