// What a device measures of itself, for memory plans, profiles, tests and benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/backend.h"

namespace traingraph {

// What a device was asked to do since the process started.
struct DeviceCounters {
  std::int64_t launches = 0;         // of kernels one by one, or of a captured run as a whole
  std::int64_t captured = 0;         // kernels, copies and fills in the runs captured so far
  std::int64_t warpgroups = 0;       // of both, kernels of instructions that 9.0 alone has
  std::int64_t allocations = 0;      // blocks asked of the driver
  std::int64_t allocated_bytes = 0;  // handed out and not got back
  std::int64_t copies_in = 0;        // from host memory
  std::int64_t copies_out = 0;       // to host memory
  std::int64_t copies_within = 0;
};

class Diagnostics {
 public:
  virtual ~Diagnostics() = default;
  virtual DeviceCounters counters() const = 0;
  // What the device's context and libraries hold in its memory so far, measured.
  virtual std::size_t context_bytes() const { return 0; }
  // Seconds that the device has worked on what is done, by its own clock; negative where it has
  // none.
  virtual double measured_seconds() const { return -1; }
  // Launches the captured run that was launched last so many times again, one after another, and
  // returns the seconds that each took on the device; 0 when there is none.
  virtual double repeat_last_run(int) const { return 0; }
};

}  // namespace traingraph
