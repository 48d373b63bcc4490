// Sums over axes (sum_tasks.h): which tasks take a sum, and where it is cut.
#include <optional>
#include <type_traits>

#include "backends/cuda/node_kernel.h"
#include "backends/cuda/small_tasks.h"

namespace traingraph::cuda {
namespace {

constexpr std::int64_t kBlocksWanted = 2048;  // enough to fill a device

// Adds the parts of each sum, a warp per result.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_parts(std::int64_t results, std::int64_t parts, const double* partial, T* y) {
  const std::int64_t result = thread_number() / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (result >= results) return;
  double sum = 0;
#pragma unroll 4
  for (std::int64_t part = lane; part < parts; part += 32) sum += partial[part * results + result];
  sum = combine<32>(sum, Sum());
  if (lane == 0) y[result] = static_cast<T>(sum);
}

// `inner_summed`: whether the innermost axis of more than one element is.
SumPlan plan_of(const ir::Graph& graph, const ir::Node& node, bool& inner_summed) {
  const auto& attributes = std::get<ir::ReduceAttributes>(node.attributes);
  const Shape& shape = graph.type(node.inputs[0]).shape;
  const Shape strides = ir::dense_strides(shape);
  SumPlan plan;
  plan.squares = attributes.kind == ir::ReduceKind::sum_of_squares;
  inner_summed = true;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const bool summed =
        std::count(attributes.axes.begin(), attributes.axes.end(), static_cast<int>(axis)) > 0;
    (summed ? plan.summed : plan.kept).add(shape[axis], strides[axis]);
    (summed ? plan.count : plan.results) *= shape[axis];
    if (shape[axis] != 1) inner_summed = summed;
  }
  return plan;
}

template <class T>
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
    const Sums<T> sums = bound(pointers);
    with_kind([&](auto tasks) {
      static_cast<Sums<T>&>(tasks) = sums;
      run_tasks<<<tasks_, kThreads, 0, stream>>>(tasks);
    });
    check_launch("reduce");
    if (sums_.plan.parts == 1) return;
    add_parts<T><<<blocks_for(sums_.plan.results * 32), kThreads, 0, stream>>>(
        sums_.plan.results, sums_.plan.parts, sums.partial, sums.y);
    check_launch("reduce, second stage");
  }

 private:
  Sums<T> bound(Pointers pointers) const {
    Sums<T> sums = sums_;
    sums.x = in<T>(pointers, 0);
    sums.y = out<T>(pointers, 0);
    sums.partial = sums.plan.parts > 1 ? workspace<double>(pointers) : nullptr;
    return sums;
  }

  // Calls f with empty tasks of this sum's kind.
  template <class F>
  void with_kind(F&& f) const {
    constexpr int kPack = Pack<T>::kElements;
    if (lanes_ == 0) f(SumColumnTasks<T>());
    if (lanes_ == 1) f(SumRowTasks<T, 1, 1>());
    if (lanes_ == 32 && packs_) f(SumRowTasks<T, 32, kPack>());
    if (lanes_ == 32 && !packs_) f(SumRowTasks<T, 32, 1>());
    if (lanes_ == kThreads && packs_) f(SumRowTasks<T, kThreads, kPack>());
    if (lanes_ == kThreads && !packs_) f(SumRowTasks<T, kThreads, 1>());
  }

  // Cuts sums into parts where the results alone would not fill a device.
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
      const std::int64_t groups = (sums_.plan.results + kSumColumns - 1) / kSumColumns;
      cut(groups, 4 * kSumRows);
      lanes_ = 0;
      tasks_ = static_cast<unsigned>(groups * sums_.plan.parts);
      return;
    }
    const Walk& summed = sums_.plan.summed;
    packs_ = summed.rank > 0 && summed.extents[summed.rank - 1].divisor % Pack<T>::kElements == 0;
    constexpr int kPack = Pack<T>::kElements;
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

  Sums<T> sums_{};
  int lanes_ = 0;  // threads per result; 0: down columns
  bool packs_ = false;
  unsigned tasks_ = 1;
};

// Over the elements of one axis, of few results.
template <class T>
class SmallReduce final : public NodeKernel {
 public:
  SmallReduce(const ir::Graph& graph, const ir::Node& node, const SumPlan& plan)
      : NodeKernel(graph, node) {
    tasks_.results = static_cast<int>(plan.results);
    tasks_.count = static_cast<int>(plan.count);
    if (plan.kept.rank > 0) tasks_.result_step = static_cast<int>(plan.kept.strides[0]);
    if (plan.summed.rank > 0) tasks_.step = static_cast<int>(plan.summed.strides[0]);
    tasks_.squares = plan.squares;
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    run_tasks<<<blocks(), kThreads, 0, stream>>>(bound(pointers));
    check_launch("reduce, small");
  }

  std::optional<SmallWork> small(Pointers pointers) const override {
    return small_work(bound(pointers), blocks());
  }

 private:
  unsigned blocks() const { return blocks_for(tasks_.results, kThreads / 32); }

  SmallSumTasks<T> bound(Pointers pointers) const {
    SmallSumTasks<T> tasks = tasks_;
    tasks.x = in<T>(pointers, 0);
    tasks.y = out<T>(pointers, 0);
    return tasks;
  }

  SmallSumTasks<T> tasks_{};
};

bool is_small(const SumPlan& plan) {
  return plan.kept.rank <= 1 && plan.summed.rank <= 1 && plan.results > 0 &&
         plan.results <= kMostSmallResults && plan.count <= kMostSmallCount;
}

template <class T>
std::unique_ptr<Kernel> make_reduce(const ir::Graph& graph, const ir::Node& node) {
  bool inner_summed = true;
  const SumPlan plan = plan_of(graph, node, inner_summed);
  if (is_small(plan)) return std::make_unique<SmallReduce<T>>(graph, node, plan);
  return std::make_unique<Reduce<T>>(graph, node, plan, inner_summed);
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context&) {
  return compute_type(graph, node) == DataType::kFloat64 ? make_reduce<double>(graph, node)
                                                         : make_reduce<float>(graph, node);
}

}  // namespace

std::vector<KernelEntry> reduce_entries() {
  return {{ir::Op::reduce, supports_floating, make, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
