#pragma once

#include <memory>
#include <vector>

#include "backends/metal/kernel.h"
#include "runtime/backend.h"

namespace traingraph::metal {

// Prepared kernels: each run encodes them on one command buffer, commits it and waits.
class MetalExecutable final : public Executable {
 public:
  // Kernels by node number, null for views.
  MetalExecutable(Device& device, std::vector<std::unique_ptr<Kernel>> kernels);
  ~MetalExecutable() override;

  std::size_t workspace_bytes(ir::NodeId node) const override;
  void run(const ir::NodeId* order, std::size_t count, Pointers pointers, double* seconds) override;
  bool all_finite(DataType type, const std::byte* bytes, std::size_t length) const override;

 private:
  double run_together(const ir::NodeId* order, std::size_t count, Pointers pointers) const;

  Device& device_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::unique_ptr<Encoding::State> state_;
};

}  // namespace traingraph::metal
