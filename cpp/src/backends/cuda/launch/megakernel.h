#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "backends/cuda/kernel/kernel.h"

// A megakernel: one kernel for many small ops.
//
// A step of a small network is a chain of ops that each take less time than a kernel launch. A
// megakernel executes a table of such ops. The table has levels of independent ops; each level
// lists the tasks of its ops (tasks.h). With one level, each block of the grid executes one task.
// With several levels, the blocks of one cluster share the tasks of a level, and a cluster barrier
// separates levels: it orders and publishes writes. Results do not depend on which ops share the
// launch, so they have the bits of separate kernels.
//
// The table is in device memory. It is written once per set of addresses.
namespace traingraph::cuda {

class Megakernel {
 public:
  explicit Megakernel(const std::vector<std::vector<MegakernelWork>>& levels);

  const std::vector<std::byte>& table() const { return table_; }
  // `table` is a device copy of the bytes above.
  void launch(const std::byte* table, int cluster_blocks, cudaStream_t stream) const;

 private:
  std::vector<std::byte> table_;
  int levels_, most_tasks_ = 0;  // per level
  std::size_t most_argument_bytes_ = 0;
};

// The compute capability that the kernels on the current device were compiled for: 90 for 9.0. It
// is lower than the device's if the driver compiled code for older ones.
int compiled_for();

// The largest number of blocks of a megakernel with several levels on the current device; one if
// its kernels were not compiled for clusters. Also sets the kernels' attributes.
int most_cluster_blocks();

}  // namespace traingraph::cuda
