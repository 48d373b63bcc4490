#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backends/cuda/capture.h"
#include "backends/cuda/gpu.h"
#include "backends/cuda/joints.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/small_program.h"
#include "backends/cuda/units.h"

namespace traingraph::cuda {

// Prepared kernels in an order. A run over the addresses of the run before is captured into a CUDA
// graph once and from then on is one launch, small ops as parts of small programs; over other
// addresses its kernels are launched one by one, and the capture is forgotten.
class CudaExecutable final : public Executable {
 public:
  // Kernels by node number, null for views.
  CudaExecutable(Gpu& gpu, const ir::Graph& graph, std::vector<std::unique_ptr<Kernel>> kernels,
                 const Context& context);
  ~CudaExecutable() override;

  std::size_t workspace_bytes(ir::NodeId node) const override;
  std::size_t apart_bytes() const override { return std::size_t{64} << 10; }
  std::size_t roomy_bytes() const override {
    return has_large_products_ ? std::size_t{64} << 20 : 0;
  }
  void run(const ir::NodeId* order, std::size_t count, Pointers pointers, double* seconds) override;
  bool carry_in(std::byte* to, const void* bytes, std::size_t count) override;
  std::unique_ptr<PendingRead> carry_out(const std::byte* from, std::size_t bytes) override;
  bool all_finite(DataType type, const std::byte* bytes, std::size_t length) const override;

 private:
  // Part of a schedule: which nodes, over which addresses, and the capture of both.
  struct Range {
    std::vector<ir::NodeId> nodes;  // in their order
    std::vector<std::byte*> addresses;
    std::vector<Work> work;                        // over those addresses
    std::vector<std::unique_ptr<Kernel>> kernels;  // of its joints
    std::unique_ptr<Captured> captured;
    std::vector<std::shared_ptr<std::byte>> tables;  // of its small programs
  };

  // How a unit is launched: as a small program with its table, or as its one node.
  struct Prepared {
    std::optional<SmallProgram> program;
    std::shared_ptr<std::byte> table;
  };

  Range& range(const ir::NodeId* order, std::size_t count);
  void run_carrying(const Cargo& cargo, Range& range, Pointers pointers, double* seconds);
  void use_addresses(Range& range, Pointers pointers) const;
  void capture(Range& range, const Cargo& cargo) const;
  std::vector<Unit> with_cargo(std::vector<Unit> units, const Range& range,
                               const Cargo& cargo) const;
  Prepared prepare(const Unit& unit, const std::vector<std::optional<SmallWork>>& works) const;
  void forget(Range& range) const;
  void run_timed(const Range& range, Pointers pointers, double* seconds) const;

  Gpu& gpu_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<Work> work_;  // by node number
  bool has_large_products_;
  Joints joints_;
  std::size_t addresses_;      // length of the table that run() is given
  std::vector<Range> ranges_;  // few: the phases and the step
  Cargo cargo_;                // of the next run
};

}  // namespace traingraph::cuda
