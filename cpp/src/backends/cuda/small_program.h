#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "backends/cuda/kernel.h"

// Small ops that run as one kernel.
//
// A step of a small network is a chain of ops that each take less time than it takes to start a
// kernel after another one. A small program is a table of such ops: levels, whose ops do not wait
// for each other, and per level the tasks of its ops (tasks.h). With one level, each block of the
// grid takes one task. With more, one cluster of blocks takes a level's tasks in turn, and a
// barrier of the cluster stands between two levels: it orders and publishes what was written. What
// an op computes does not depend on the company it is in, so its bits are those of its own kernel.
//
// The table lies in device memory. It is written once per set of addresses.
namespace traingraph::cuda {

class SmallProgram {
 public:
  explicit SmallProgram(const std::vector<std::vector<SmallWork>>& levels);

  const std::vector<std::byte>& table() const { return table_; }
  // `table` is a copy of the bytes above on the device.
  void launch(const std::byte* table, int cluster_blocks, cudaStream_t stream) const;

 private:
  std::vector<std::byte> table_;
  int levels_, most_tasks_ = 0;  // of a level
  std::size_t most_argument_bytes_ = 0;
};

// What the kernels on the current device were compiled for: 90 for compute capability 9.0. Less
// than the device's where its driver has compiled code that is meant for older ones.
int compiled_for();

// The most blocks that a program of several levels may have on the current device; one where its
// kernels were not compiled for clusters. Readies them.
int most_cluster_blocks();

}  // namespace traingraph::cuda
