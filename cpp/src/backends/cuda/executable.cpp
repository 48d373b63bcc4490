#include "backends/cuda/executable.h"

#include <algorithm>

#include "backends/cuda/check.h"
#include "backends/cuda/stopwatch.h"

namespace traingraph::cuda {

CudaExecutable::CudaExecutable(Gpu& gpu, const ir::Graph& graph,
                               std::vector<std::unique_ptr<Kernel>> kernels)
    : gpu_(gpu),
      kernels_(std::move(kernels)),
      addresses_(graph.values.size() + graph.nodes.size()) {
  std::vector<std::size_t> workspaces;
  for (const auto& kernel : kernels_) {
    workspaces.push_back(kernel != nullptr ? kernel->workspace_bytes() : 0);
  }
  accesses_ = accesses_of(graph, workspaces);
}

CudaExecutable::~CudaExecutable() {
  for (Range& range : ranges_) {
    try {
      forget(range);
    } catch (...) {
      // The process ends, or the device is lost: there is nothing left to give back.
    }
  }
}

std::size_t CudaExecutable::workspace_bytes(ir::NodeId node) const {
  const auto& kernel = kernels_[static_cast<std::size_t>(node)];
  return kernel != nullptr ? kernel->workspace_bytes() : 0;
}

CudaExecutable::Range& CudaExecutable::range(const ir::NodeId* order, std::size_t count) {
  for (Range& known : ranges_) {
    if (known.order == order && known.count == count) return known;
  }
  return ranges_.emplace_back(Range{order, count, {}, nullptr, {}});
}

void CudaExecutable::run(const ir::NodeId* order, std::size_t count, Pointers pointers,
                         double* seconds) {
  if (count == 0) return;
  const Selected selected(gpu_.index());
  const std::lock_guard lock(gpu_.launching);
  if (seconds != nullptr) return run_timed(order, count, pointers, seconds);
  const auto launch = [&] {
    launch_each(order, count, pointers, gpu_.stream());
    gpu_.count_launches(static_cast<std::int64_t>(count));
  };
  if (count == 1) return launch();
  Range& known = range(order, count);
  const bool same =
      std::equal(known.addresses.begin(), known.addresses.end(), pointers, pointers + addresses_);
  if (!same) {
    forget(known);
    known.addresses.assign(pointers, pointers + addresses_);
    return launch();
  }
  if (known.captured == nullptr) capture(known);
  gpu_.launch(known.captured);
}

void CudaExecutable::launch_each(const ir::NodeId* order, std::size_t count, Pointers pointers,
                                 cudaStream_t stream) const {
  for (std::size_t k = 0; k < count; ++k) {
    kernels_[static_cast<std::size_t>(order[k])]->launch(pointers, stream);
  }
}

void CudaExecutable::capture(Range& range) const {
  Pointers pointers = range.addresses.data();
  std::vector<std::optional<SmallWork>> works;
  std::vector<int> tasks;
  std::vector<double> costs;
  for (std::size_t k = 0; k < range.count; ++k) {
    const auto node = static_cast<std::size_t>(range.order[k]);
    works.push_back(kernels_[node]->small(pointers));
    tasks.push_back(works.back() ? works.back()->tasks : 0);
    costs.push_back(accesses_.costs[node]);
  }
  std::vector<Unit> units =
      units_of(dependencies(accesses_, range.order, range.count, pointers), tasks);
  if (accesses_.has_large_products) {
    units = launch_order(units, costs, needed_later(accesses_, range.order, range.count, pointers));
  }
  std::vector<Prepared> prepared;
  for (const Unit& unit : units) prepared.push_back(prepare(unit, works));
  const int cluster_blocks = gpu_.context().cluster_blocks;
  const Captured captured = cuda::capture(units, [&](std::size_t k, cudaStream_t stream) {
    const Prepared& one = prepared[k];
    if (one.program) {
      one.program->launch(one.table.get(), cluster_blocks, stream);
    } else {
      launch_each(range.order + units[k].levels[0][0], 1, pointers, stream);
    }
  });
  range.captured = captured.run;
  for (Prepared& one : prepared) {
    if (one.table != nullptr) range.tables.push_back(std::move(one.table));
  }
  gpu_.count_captured(captured.nodes);
  check(cudaGraphUpload(range.captured, gpu_.stream()), "cudaGraphUpload");
}

CudaExecutable::Prepared CudaExecutable::prepare(
    const Unit& unit, const std::vector<std::optional<SmallWork>>& works) const {
  if (unit.levels.size() == 1 && unit.levels[0].size() == 1) return {};
  std::vector<std::vector<SmallWork>> levels;
  for (const auto& level : unit.levels) {
    levels.emplace_back();
    for (std::size_t position : level) levels.back().push_back(*works[position]);
  }
  Prepared prepared;
  prepared.program.emplace(levels);
  const std::vector<std::byte>& table = prepared.program->table();
  prepared.table = gpu_.keep(table);
  return prepared;
}

void CudaExecutable::forget(Range& range) const {
  if (range.captured == nullptr) return;
  const Selected selected(gpu_.index());
  check(cudaStreamSynchronize(gpu_.stream()), "cudaStreamSynchronize");
  gpu_.forget(range.captured);
  check(cudaGraphExecDestroy(range.captured), "cudaGraphExecDestroy");
  range.captured = nullptr;
  range.tables.clear();
}

void CudaExecutable::run_timed(const ir::NodeId* order, std::size_t count, Pointers pointers,
                               double* seconds) const {
  Stopwatch watch;
  for (std::size_t k = 0; k < count; ++k) {
    watch.start(gpu_.stream());
    launch_each(order + k, 1, pointers, gpu_.stream());
    watch.stop(gpu_.stream());
    seconds[order[k]] = watch.seconds();
  }
  gpu_.count_launches(static_cast<std::int64_t>(count));
}

bool CudaExecutable::all_finite(DataType type, const std::byte* bytes, std::size_t length) const {
  return gpu_.all_finite(type, bytes, length);
}

}  // namespace traingraph::cuda
