#pragma once

#include <memory>
#include <vector>

#include "backends/metal/device/image_plan.h"
#include "backends/metal/device/kernel.h"
#include "runtime/backend.h"

namespace traingraph::metal {

// Prepared kernels: each run encodes them on one command buffer and commits it.
class MetalExecutable final : public Executable {
 public:
  // Kernels by node number, null for views. The graph is not kept.
  MetalExecutable(Device& device, const ir::Graph& graph,
                  std::vector<std::unique_ptr<Kernel>> kernels);
  ~MetalExecutable() override;

  std::size_t workspace_bytes(ir::NodeId node) const override;
  void run(const ir::NodeId* order, std::size_t count, Pointers pointers, double* seconds) override;
  bool all_finite(DataType type, const std::byte* bytes, std::size_t length) const override;

 private:
  // What stays images in the run of an order. A program has few, and each keeps its address.
  struct Planned {
    const ir::NodeId* order;
    std::size_t count;
    ImagePlan images;
  };
  const ImagePlan& plan_of(const ir::NodeId* order, std::size_t count);
  void run_together(const ir::NodeId* order, std::size_t count, Pointers pointers,
                    const ImagePlan* plan) const;

  Device& device_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  ImagePlanner planner_;
  std::vector<Planned> plans_;
  std::unique_ptr<Encoding::State> state_;
};

}  // namespace traingraph::metal
