#pragma once

#include <optional>
#include <type_traits>

#include "backends/cuda/kernel/node_kernel.h"
#include "backends/cuda/tasks/megakernel_tasks.h"
#include "backends/cuda/tasks/rows.h"

namespace traingraph::cuda {

// The base class of kernels whose tasks take rows. K::with_tasks<kLanes>(pointers, f) calls f with
// the tasks. For .cu files only.
template <class T, class K>
class RowKernel : public NodeKernel {
 public:
  RowKernel(const ir::Graph& graph, const ir::Node& node, const Rows& rows)
      : NodeKernel(graph, node), rows_(rows) {}

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (rows_.count() == 0) return;
    with_lanes(rows_.lanes(), [&](auto lanes) {
      constexpr int kLanes = decltype(lanes)::value;
      static_cast<const K&>(*this).template with_tasks<kLanes>(pointers, [&](const auto& tasks) {
        run_tasks<<<blocks_for(rows_.count() * kLanes), kThreads, 0, stream>>>(tasks);
      });
    });
    check_launch("a kernel over rows");
  }

  std::optional<MegakernelWork> megakernel_work(Pointers pointers) const override {
    std::optional<MegakernelWork> work;
    if constexpr (std::is_same_v<T, float>) {
      if (rows_.count() == 0) return work;
      with_lanes(rows_.lanes(), [&](auto lanes) {
        constexpr int kLanes = decltype(lanes)::value;
        if constexpr (kLanes <= 32) {
          static_cast<const K&>(*this).template with_tasks<kLanes>(
              pointers, [&](const auto& tasks) {
                work = make_megakernel_work(tasks, blocks_for(rows_.count() * kLanes));
              });
        }
      });
    }
    return work;
  }

 protected:
  Rows rows_;
};

}  // namespace traingraph::cuda
