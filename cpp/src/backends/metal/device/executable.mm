// A run of prepared kernels on one command buffer.
#include "backends/metal/device/executable.h"

#include "backends/metal/device/objects.h"
#include "runtime/numbers/finite.h"

namespace traingraph::metal {

MetalExecutable::MetalExecutable(Device& device, const ir::Graph& graph,
                                 std::vector<std::unique_ptr<Kernel>> kernels)
    : device_(device),
      kernels_(std::move(kernels)),
      planner_(graph),
      state_(std::make_unique<Encoding::State>()) {}

MetalExecutable::~MetalExecutable() {
  const Pool pool;
  kernels_.clear();
}

std::size_t MetalExecutable::workspace_bytes(ir::NodeId node) const {
  const auto& kernel = kernels_[static_cast<std::size_t>(node)];
  return kernel ? kernel->workspace_bytes() : 0;
}

// The first run of an order plans it.
const ImagePlan& MetalExecutable::plan_of(const ir::NodeId* order, std::size_t count) {
  for (const Planned& known : plans_) {
    if (known.order == order && known.count == count) return known.images;
  }
  plans_.push_back({order, count, planner_.plan(order, count, kernels_)});
  return plans_.back().images;
}

// Without a plan each kernel works by itself.
void MetalExecutable::run_together(const ir::NodeId* order, std::size_t count, Pointers pointers,
                                   const ImagePlan* plan) const {
  const Pool pool;
  Encoding encoding(device_, *state_);
  state_->slots.assign(plan == nullptr ? 0 : plan->slots, nil);
  for (std::size_t k = 0; k < count; ++k) {
    const bool shares = plan != nullptr && plan->steps[k].has_value();
    state_->step = shares ? &*plan->steps[k] : nullptr;
    kernels_[static_cast<std::size_t>(order[k])]->encode(pointers, encoding);
  }
  encoding.commit();
}

// A time for each node takes a command buffer for each, to which images of another cannot go.
void MetalExecutable::run(const ir::NodeId* order, std::size_t count, Pointers pointers,
                          double* seconds) {
  if (count == 0) return;
  if (seconds != nullptr) {
    device_.finish();
    for (std::size_t k = 0; k < count; ++k) {
      const double before = device_.seconds();
      run_together(order + k, 1, pointers, nullptr);
      device_.finish();
      seconds[order[k]] = device_.seconds() - before;
    }
  } else {
    run_together(order, count, pointers, count == 1 ? nullptr : &plan_of(order, count));
  }
  device_.count_launches(static_cast<std::int64_t>(count));
}

bool MetalExecutable::all_finite(DataType type, const std::byte* bytes, std::size_t length) const {
  device_.finish();
  if (ir::is_half(type)) return all_finite_half(type, bytes, length);
  return all_finite_float(bytes, length);
}

}  // namespace traingraph::metal
