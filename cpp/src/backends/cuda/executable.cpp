#include "backends/cuda/executable.h"

#include <algorithm>
#include <cstring>
#include <utility>

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

bool CudaExecutable::carry_in(std::byte* to, const void* bytes, std::size_t count) {
  Cargo::In& in = cargo_.in.emplace();
  in.to = to;
  in.count = count;
  std::memcpy(in.bytes.data(), bytes, count);
  gpu_.count_carried_in();
  return true;
}

std::unique_ptr<PendingRead> CudaExecutable::carry_out(const std::byte* from, std::size_t bytes) {
  LateReads::Reserved reserved = gpu_.reserve_read(bytes);
  if (reserved.read != nullptr) cargo_.out = Cargo::Out{reserved.place, from, bytes};
  return std::move(reserved.read);
}

void CudaExecutable::run(const ir::NodeId* order, std::size_t count, Pointers pointers,
                         double* seconds) {
  const Cargo cargo = std::exchange(cargo_, {});
  if (count == 0 && !cargo.in && !cargo.out) return;
  const Selected selected(gpu_.index());
  const std::lock_guard lock(gpu_.launching);
  run_carrying(cargo, order, count, pointers, seconds);
  if (cargo.out) check(cudaEventRecord(cargo.out->place->there, gpu_.stream()), "cudaEventRecord");
}

void CudaExecutable::run_carrying(const Cargo& cargo, const ir::NodeId* order, std::size_t count,
                                  Pointers pointers, double* seconds) {
  if (seconds == nullptr && count > 1) {
    Range& known = range(order, count);
    if (std::equal(known.addresses.begin(), known.addresses.end(), pointers,
                   pointers + addresses_)) {
      if (known.captured == nullptr) capture(known, cargo);
      return gpu_.launch(*known.captured, cargo);
    }
    forget(known);
    known.addresses.assign(pointers, pointers + addresses_);
  }
  cargo.launch_in(gpu_.stream());
  if (seconds != nullptr) {
    run_timed(order, count, pointers, seconds);
  } else {
    launch_each(order, count, pointers, gpu_.stream());
    gpu_.count_launches(static_cast<std::int64_t>(count));
  }
  cargo.launch_out(gpu_.stream());
}

void CudaExecutable::launch_each(const ir::NodeId* order, std::size_t count, Pointers pointers,
                                 cudaStream_t stream) const {
  for (std::size_t k = 0; k < count; ++k) {
    kernels_[static_cast<std::size_t>(order[k])]->launch(pointers, stream);
  }
}

void CudaExecutable::capture(Range& range, const Cargo& cargo) const {
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
  const std::size_t first = cargo.in ? 1 : 0;  // of those units
  units = with_cargo(std::move(units), range, cargo);
  const std::size_t in = cargo.in ? 0 : units.size(), out = first + prepared.size();
  const auto launch = [&](std::size_t k, cudaStream_t stream) {
    if (k == in) return cargo.launch_in(stream);
    if (k == out) return cargo.launch_out(stream);
    const Prepared& one = prepared[k - first];
    if (one.program) {
      one.program->launch(one.table.get(), gpu_.context().cluster_blocks, stream);
    } else {
      launch_each(range.order + units[k].levels[0][0], 1, pointers, stream);
    }
  };
  range.captured = std::make_unique<Captured>(units, launch, in, out);
  for (Prepared& one : prepared) {
    if (one.table != nullptr) range.tables.push_back(std::move(one.table));
  }
  gpu_.count_captured(range.captured->nodes());
  range.captured->upload(gpu_.stream());
}

// A unit before all, which those wait for that read what it writes, and one behind all, which waits
// for the one that makes what it reads: neither holds up anything else.
std::vector<Unit> CudaExecutable::with_cargo(std::vector<Unit> units, const Range& range,
                                             const Cargo& cargo) const {
  Unit last;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (cargo.out && touches(units[u], range, cargo.out->from, cargo.out->count)) {
      last.needs.push_back(u);
    }
  }
  if (cargo.out) units.push_back(std::move(last));
  if (!cargo.in) return units;
  for (Unit& unit : units) {
    for (std::size_t& need : unit.needs) ++need;
    if (touches(unit, range, cargo.in->to, cargo.in->count)) unit.needs.push_back(0);
  }
  units.insert(units.begin(), Unit());
  return units;
}

bool CudaExecutable::touches(const Unit& unit, const Range& range, const std::byte* bytes,
                             std::size_t count) const {
  const auto touches_node = [&](std::size_t position) {
    const auto node = static_cast<std::size_t>(range.order[position]);
    return std::any_of(accesses_.of[node].begin(), accesses_.of[node].end(), [&](const Access& a) {
      const std::byte* const at = range.addresses[a.address];
      return at < bytes + count && bytes < at + a.bytes;
    });
  };
  return std::any_of(unit.levels.begin(), unit.levels.end(), [&](const auto& level) {
    return std::any_of(level.begin(), level.end(), touches_node);
  });
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
  gpu_.forget(*range.captured);
  range.captured.reset();
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
