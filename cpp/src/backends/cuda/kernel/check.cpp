#include "backends/cuda/kernel/check.h"

#include <traingraph/errors.h>

#include "backends/cuda/kernel/kernel.h"

namespace traingraph::cuda {

Kernel::~Kernel() = default;

void fail_call(const char* call, int code, const char* text, bool of_memory) {
  const std::string said = "[cuda] expected " + std::string(call) + " to succeed but got code " +
                           std::to_string(code) + " (" + text + ")";
  if (of_memory) throw OutOfMemory(said);
  throw DeviceError(said);
}

}  // namespace traingraph::cuda
