// The executable of the CUDA backend: prepared kernels, and the captured graphs of their runs.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backends/cuda/kernel/kernel.h"
#include "backends/cuda/launch/capture.h"
#include "backends/cuda/launch/gpu.h"
#include "backends/cuda/launch/horizontal_fusion.h"
#include "backends/cuda/launch/launch_groups.h"
#include "backends/cuda/launch/megakernel.h"

namespace traingraph::cuda {

// Runs prepared kernels in a given order. The first run over a set of addresses launches kernels
// one by one. The second run is captured into a CUDA graph, with small ops in megakernels; from
// then on a run is one launch. Other addresses discard the captured graph.
class CudaExecutable final : public Executable {
 public:
  // Kernels by node number, null for views.
  CudaExecutable(Gpu& gpu, const ir::Graph& graph, std::vector<std::unique_ptr<Kernel>> kernels,
                 const Context& context);
  ~CudaExecutable() override;

  std::size_t workspace_bytes(ir::NodeId node) const override;
  std::size_t unaliased_result_bytes() const override { return std::size_t{64} << 10; }
  std::size_t unaliased_step_bytes() const override {
    return has_large_products_ ? std::size_t{320} << 20 : 0;
  }
  // Else what is computed next could take the place of what still travels, and would wait for it.
  bool sums_go_on() const override { return has_sums_; }
  void run(const ir::NodeId* order, std::size_t count, Pointers pointers, double* seconds) override;
  bool carry_in(std::byte* to, const void* bytes, std::size_t count) override;
  std::unique_ptr<PendingRead> carry_out(const std::byte* from, std::size_t bytes) override;
  bool all_finite(DataType type, const std::byte* bytes, std::size_t length) const override;

 private:
  // A part of a schedule: its nodes, the addresses they use, and the captured graph of both.
  struct Range {
    std::vector<ir::NodeId> nodes;  // in order
    std::vector<std::byte*> addresses;
    std::vector<Work> work;                        // over those addresses
    std::vector<std::unique_ptr<Kernel>> kernels;  // of its fused work
    std::unique_ptr<CapturedGraph> captured;
    std::vector<std::shared_ptr<std::byte>> tables;  // of its megakernels
    NcclRanks* ranks = nullptr;                      // of its sums over ranks
    std::int64_t sums = 0;
  };

  // How a group is launched: as a megakernel with its table, or as its only node.
  struct Prepared {
    std::optional<Megakernel> program;
    std::shared_ptr<std::byte> table;
  };

  Range& range(const ir::NodeId* order, std::size_t count);
  void run_with_transfers(const HostTransfers& transfers, Range& range, Pointers pointers,
                          double* seconds);
  void use_addresses(Range& range, Pointers pointers) const;
  void capture(Range& range, const HostTransfers& transfers) const;
  std::vector<LaunchGroup> with_transfers(std::vector<LaunchGroup> groups, const Range& range,
                                          const HostTransfers& transfers) const;
  Prepared prepare(const LaunchGroup& group,
                   const std::vector<std::optional<MegakernelWork>>& works) const;
  void forget(Range& range) const;
  void run_timed(const Range& range, Pointers pointers, double* seconds) const;

  Gpu& gpu_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<Work> work_;  // by node number
  bool has_large_products_, has_sums_;
  HorizontalFusion fusion_;
  std::size_t addresses_;      // length of the table that run() receives
  std::vector<Range> ranges_;  // few: the phases and the step
  HostTransfers transfers_;    // of the next run
};

}  // namespace traingraph::cuda
