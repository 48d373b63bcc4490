// Reductions over axes (sum_tasks.h): the choice of tasks for a sum, and its split into parts.
#include <optional>
#include <type_traits>

#include "backends/cuda/kernel/node_kernel.h"
#include "backends/cuda/tasks/megakernel_tasks.h"

namespace traingraph::cuda {
namespace {

constexpr std::int64_t kBlocksWanted = 2048;  // enough to fill a device

// Adds the parts of each sum, one warp per result.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_parts(ir::ReduceKind kind, std::int64_t results, std::int64_t parts, const double* partial,
              T* y) {
  const std::int64_t result = thread_number() / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (result >= results) return;
  double sum = 0;
#pragma unroll 4
  for (std::int64_t part = lane; part < parts; part += 32) sum += partial[part * results + result];
  sum = combine<32>(sum, Sum());
  if (lane == 0) y[result] = static_cast<T>(result_of(kind, sum));
}

// The same for many results, which neighbouring threads have.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_many_parts(ir::ReduceKind kind, std::int64_t results, std::int64_t parts,
                   const double* partial, T* y) {
  __shared__ double sums[kSumRows][kSumColumns];
  const int column = static_cast<int>(threadIdx.x) % kSumColumns;
  const int row = static_cast<int>(threadIdx.x) / kSumColumns;
  const std::int64_t result = std::int64_t{blockIdx.x} * kSumColumns + column;
  double sum = 0;
  if (result < results) {
#pragma unroll 4
    for (std::int64_t part = row; part < parts; part += kSumRows) {
      sum += partial[part * results + result];
    }
  }
  sums[row][column] = sum;
  __syncthreads();
  if (row != 0 || result >= results) return;
  for (int other = 1; other < kSumRows; ++other) sum += sums[other][column];
  y[result] = static_cast<T>(result_of(kind, sum));
}

// Sources may have any order of axes.
LayoutChoice layouts(const ir::Graph& graph, const ir::Node& node) {
  const ir::Layout& source = graph.value(node.inputs[0]).layout;
  return {{source.blocks.empty() ? source : ir::Layout()}, {ir::Layout()}};
}

// The summed axes are walked in memory order, the results in the order of their axes.
// `inner_summed`: whether the innermost axis of more than one element is summed.
SumPlan plan_of(const ir::Graph& graph, const ir::Node& node, bool& inner_summed) {
  const auto& attributes = std::get<ir::ReduceAttributes>(node.attributes);
  const Shape& shape = graph.type(node.inputs[0]).shape;
  SumPlan plan;
  plan.kind = attributes.kind;
  inner_summed = true;
  Shape strides(shape.size(), 0);  // of the axes that are kept
  for (const ir::PhysicalDimension& d :
       ir::physical_dimensions(shape, layouts(graph, node).inputs[0])) {
    const bool summed = std::count(attributes.axes.begin(), attributes.axes.end(), d.axis) > 0;
    if (summed) plan.summed.add(d.extent, d.stride);
    if (!summed) strides[static_cast<std::size_t>(d.axis)] = d.stride;
    (summed ? plan.count : plan.results) *= d.extent;
    if (d.extent != 1) inner_summed = summed;
  }
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (strides[axis] != 0) plan.kept.add(shape[axis], strides[axis]);
  }
  return plan;
}

template <class S>
class Reduce final : public NodeKernel {
 public:
  Reduce(const ir::Graph& graph, const ir::Node& node, const SumPlan& plan, bool inner_summed)
      : NodeKernel(graph, node) {
    sums_.plan = plan;
    choose(inner_summed);
  }

  std::size_t workspace_bytes() const override {
    if (sums_.plan.parts == 1) return 0;
    return static_cast<std::size_t>(sums_.plan.parts * sums_.plan.results) * sizeof(double);
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (sums_.plan.results == 0) return;
    const Sums<S> sums = bound(pointers);
    with_kind([&](auto tasks) {
      static_cast<Sums<S>&>(tasks) = sums;
      run_tasks<<<tasks_, kThreads, 0, stream>>>(tasks);
    });
    check_launch("reduce");
    if (sums_.plan.parts == 1) return;
    const std::int64_t results = sums_.plan.results;
    const bool many = results >= kSumColumns;
    const unsigned blocks = many ? blocks_for(results, kSumColumns) : blocks_for(results * 32);
    (many ? add_many_parts<Compute<S>> : add_parts<Compute<S>>)<<<blocks, kThreads, 0, stream>>>(
        sums_.plan.kind, results, sums_.plan.parts, sums.partial, sums.y);
    check_launch("reduce, second stage");
  }

 private:
  Sums<S> bound(Pointers pointers) const {
    Sums<S> sums = sums_;
    sums.x = in<S>(pointers, 0);
    sums.y = out<Compute<S>>(pointers, 0);
    sums.partial = sums.plan.parts > 1 ? workspace<double>(pointers) : nullptr;
    return sums;
  }

  // Calls f with empty tasks of this sum's kind.
  template <class F>
  void with_kind(F&& f) const {
    constexpr int kPack = Pack<S>::kElements;
    if (lanes_ == 0 && packs_) f(SumPackedColumnTasks<S>());
    if (lanes_ == 0 && !packs_) f(SumColumnTasks<S>());
    if (lanes_ == 1) f(SumRowTasks<S, 1, 1>());
    if (lanes_ == 32 && packs_) f(SumRowTasks<S, 32, kPack>());
    if (lanes_ == 32 && !packs_) f(SumRowTasks<S, 32, 1>());
    if (lanes_ == kThreads && packs_) f(SumRowTasks<S, kThreads, kPack>());
    if (lanes_ == kThreads && !packs_) f(SumRowTasks<S, kThreads, 1>());
  }

  // Splits sums into parts of a length or more if the results alone would not fill the device.
  void cut(std::int64_t blocks, std::int64_t least_length) {
    const std::int64_t wanted = (kBlocksWanted + blocks - 1) / blocks;
    const std::int64_t most = std::max<std::int64_t>(1, sums_.plan.count / least_length);
    const std::int64_t parts =
        std::clamp<std::int64_t>(wanted, 1, std::min<std::int64_t>(most, kBlocksWanted));
    sums_.plan.length = (sums_.plan.count + parts - 1) / parts;
    sums_.plan.length = (sums_.plan.length + least_length - 1) / least_length * least_length;
    sums_.plan.parts =
        std::max<std::int64_t>(1, (sums_.plan.count + sums_.plan.length - 1) / sums_.plan.length);
  }

  void choose(bool inner_summed) {
    sums_.plan.length = sums_.plan.count;
    if (sums_.plan.results == 0) return;
    if (!inner_summed) {
      const SumPlan& plan = sums_.plan;
      packs_ = plan.results % Pack<S>::kElements == 0 && plan.kept.rank == 1 &&
               plan.kept.strides[0] == 1 && plan.summed.rank == 1 &&
               plan.summed.strides[0] == plan.results;
      const int columns = packs_ ? kSumColumns * Pack<S>::kElements : kSumColumns;
      const std::int64_t groups = (plan.results + columns - 1) / columns;
      cut(groups, (packs_ ? 8 : 4) * kSumRows);
      lanes_ = 0;
      tasks_ = static_cast<unsigned>(groups * sums_.plan.parts);
      return;
    }
    const Walk& summed = sums_.plan.summed;
    packs_ = summed.rank > 0 && summed.extents[summed.rank - 1].divisor % Pack<S>::kElements == 0;
    constexpr int kPack = Pack<S>::kElements;
    if (sums_.plan.count <= 4) {
      lanes_ = 1;
      tasks_ = blocks_for(sums_.plan.results);
    } else if (sums_.plan.count <= 1024 && sums_.plan.results >= 32) {
      lanes_ = 32;
      tasks_ = blocks_for(sums_.plan.results * 32);
    } else {
      cut(sums_.plan.results, 4 * kThreads * kPack);
      lanes_ = kThreads;
      tasks_ = static_cast<unsigned>(sums_.plan.results * sums_.plan.parts);
    }
  }

  Sums<S> sums_{};
  int lanes_ = 0;  // threads per result; 0: down columns
  bool packs_ = false;
  unsigned tasks_ = 1;
};

// Sums over one axis with few results.
template <class S>
class SmallReduce final : public NodeKernel {
 public:
  SmallReduce(const ir::Graph& graph, const ir::Node& node, const SumPlan& plan)
      : NodeKernel(graph, node) {
    tasks_.results = static_cast<int>(plan.results);
    tasks_.count = static_cast<int>(plan.count);
    if (plan.kept.rank > 0) tasks_.result_step = static_cast<int>(plan.kept.strides[0]);
    if (plan.summed.rank > 0) tasks_.step = static_cast<int>(plan.summed.strides[0]);
    tasks_.kind = plan.kind;
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    run_tasks<<<blocks(), kThreads, 0, stream>>>(bound(pointers));
    check_launch("reduce, small");
  }

  std::optional<MegakernelWork> megakernel_work(Pointers pointers) const override {
    return make_megakernel_work(bound(pointers), blocks());
  }

 private:
  unsigned blocks() const { return blocks_for(tasks_.results, kThreads / 32); }

  SmallSumTasks<S> bound(Pointers pointers) const {
    SmallSumTasks<S> tasks = tasks_;
    tasks.x = in<S>(pointers, 0);
    tasks.y = out<Compute<S>>(pointers, 0);
    return tasks;
  }

  SmallSumTasks<S> tasks_{};
};

bool is_small(const SumPlan& plan) {
  return plan.kept.rank <= 1 && plan.summed.rank <= 1 && plan.results > 0 &&
         plan.results <= kMostSmallResults && plan.count <= kMostSmallCount;
}

template <class S>
std::unique_ptr<Kernel> make_reduce(const ir::Graph& graph, const ir::Node& node) {
  bool inner_summed = true;
  const SumPlan plan = plan_of(graph, node, inner_summed);
  if (is_small(plan)) return std::make_unique<SmallReduce<S>>(graph, node, plan);
  return std::make_unique<Reduce<S>>(graph, node, plan, inner_summed);
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context&) {
  switch (graph.type(node.inputs[0]).data_type) {
    case DataType::kFloat64:
      return make_reduce<double>(graph, node);
    case DataType::kFloat16:
      return make_reduce<__half>(graph, node);
    case DataType::kBFloat16:
      return make_reduce<__nv_bfloat16>(graph, node);
    default:
      return make_reduce<float>(graph, node);
  }
}

}  // namespace

std::vector<KernelEntry> reduce_entries() {
  return {{ir::Op::reduce, supports_floating_or_half, make, layouts, nullptr}};
}

}  // namespace traingraph::cuda
