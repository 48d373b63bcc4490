// The check that indices are in range; its result is read with the loss after the run.
#include "backends/cuda/device/device.h"
#include "backends/cuda/device/indices.h"
#include "backends/cuda/kernel/node_kernel.h"

namespace traingraph::cuda {
namespace {

// Finds the first index out of range, with one block: no node depends on it.
__global__ void __launch_bounds__(kThreads)
    find_outside(std::int64_t count, ir::IndexCheckAttributes check, Indices indices,
                 const std::int64_t* before, std::int64_t* found) {
  __shared__ std::int64_t firsts[kThreads];
  std::int64_t first = count;
  for (std::int64_t k = threadIdx.x; k < count && first == count; k += kThreads) {
    const std::int64_t index = indices[k];
    if (index < check.lowest || index >= check.end) first = k;
  }
  firsts[threadIdx.x] = first;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      firsts[threadIdx.x] = min(firsts[threadIdx.x], firsts[threadIdx.x + half]);
    }
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const bool was_found = before != nullptr && before[0] >= 0;
  const bool is_found = firsts[0] < count;
  const std::int64_t mine[3] = {is_found ? check.number : -1, is_found ? firsts[0] : -1,
                                is_found ? indices[firsts[0]] : -1};
  for (int k = 0; k < 3; ++k) found[k] = was_found ? before[k] : mine[k];
}

class CheckIndices final : public NodeKernel {
 public:
  CheckIndices(const ir::Graph& graph, const ir::Node& node)
      : NodeKernel(graph, node),
        check_(std::get<ir::IndexCheckAttributes>(node.attributes)),
        count_(graph.type(node.inputs[0]).elements()),
        wide_(graph.type(node.inputs[0]).data_type == DataType::kInt64) {}

  void launch(Pointers pointers, cudaStream_t stream) const override {
    const std::int64_t* const before =
        inputs_.size() == 2 ? in<std::int64_t>(pointers, 1) : nullptr;
    find_outside<<<1, kThreads, 0, stream>>>(count_, check_,
                                             Indices{in<std::byte>(pointers, 0), wide_}, before,
                                             out<std::int64_t>(pointers, 0));
    check_launch("check of indices");
  }

 private:
  ir::IndexCheckAttributes check_;
  std::int64_t count_;
  bool wide_;
};

Support supports_check(const ir::Graph&, const ir::Node&) { return {}; }

std::unique_ptr<Kernel> make_check(const ir::Graph& graph, const ir::Node& node, const Context&) {
  return std::make_unique<CheckIndices>(graph, node);
}

}  // namespace

std::vector<KernelEntry> check_indices_entries() {
  return {{ir::Op::check_indices, supports_check, make_check, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
