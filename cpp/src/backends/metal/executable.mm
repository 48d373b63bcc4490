#include "backends/metal/executable.h"

#include "backends/metal/objects.h"
#include "runtime/finite.h"

namespace traingraph::metal {

MetalExecutable::MetalExecutable(Device& device, std::vector<std::unique_ptr<Kernel>> kernels)
    : device_(device), kernels_(std::move(kernels)), state_(std::make_unique<Encoding::State>()) {}

MetalExecutable::~MetalExecutable() {
  const Pool pool;
  kernels_.clear();
}

std::size_t MetalExecutable::workspace_bytes(ir::NodeId node) const {
  const auto& kernel = kernels_[static_cast<std::size_t>(node)];
  return kernel ? kernel->workspace_bytes() : 0;
}

double MetalExecutable::run_together(const ir::NodeId* order, std::size_t count,
                                     Pointers pointers) const {
  const Pool pool;
  Encoding encoding(device_, *state_);
  for (std::size_t k = 0; k < count; ++k) {
    kernels_[static_cast<std::size_t>(order[k])]->encode(pointers, encoding);
  }
  return encoding.finish();
}

// A time for each node takes a command buffer for each.
void MetalExecutable::run(const ir::NodeId* order, std::size_t count, Pointers pointers,
                          double* seconds) {
  if (count == 0) return;
  if (seconds == nullptr) {
    run_together(order, count, pointers);
  } else {
    for (std::size_t k = 0; k < count; ++k) {
      seconds[order[k]] = run_together(order + k, 1, pointers);
    }
  }
  device_.count_launches(static_cast<std::int64_t>(count));
}

bool MetalExecutable::all_finite(DataType type, const std::byte* bytes, std::size_t length) const {
  if (ir::is_half(type)) return all_finite_half(type, bytes, length);
  return all_finite_float(bytes, length);
}

}  // namespace traingraph::metal
