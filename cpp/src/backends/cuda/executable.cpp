#include "backends/cuda/executable.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cuda/check.h"
#include "backends/cuda/stopwatch.h"

namespace traingraph::cuda {
namespace {

std::int64_t with_warpgroups(const std::vector<Work>& run) {
  return std::count_if(run.begin(), run.end(),
                       [](const Work& work) { return work.kernel->has_warpgroups(); });
}

}  // namespace

CudaExecutable::CudaExecutable(Gpu& gpu, const ir::Graph& graph,
                               std::vector<std::unique_ptr<Kernel>> kernels, const Context& context)
    : gpu_(gpu),
      kernels_(std::move(kernels)),
      work_(work_of(graph, kernels_)),
      has_large_products_(has_large_products(graph, work_)),
      joints_(graph, work_, context),
      addresses_(graph.values.size() + graph.nodes.size()) {}

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
    if (std::equal(known.nodes.begin(), known.nodes.end(), order, order + count)) return known;
  }
  return ranges_.emplace_back(Range{{order, order + count}, {}, {}, {}, nullptr, {}});
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
  run_carrying(cargo, range(order, count), pointers, seconds);
  if (cargo.out) check(cudaEventRecord(cargo.out->place->there, gpu_.stream()), "cudaEventRecord");
}

void CudaExecutable::run_carrying(const Cargo& cargo, Range& range, Pointers pointers,
                                  double* seconds) {
  const bool same =
      std::equal(range.addresses.begin(), range.addresses.end(), pointers, pointers + addresses_);
  if (same && seconds == nullptr && range.work.size() > 1) {
    if (range.captured == nullptr) capture(range, cargo);
    return gpu_.launch(*range.captured, cargo);
  }
  if (!same) use_addresses(range, pointers);
  cargo.launch_in(gpu_.stream());
  if (seconds != nullptr) {
    run_timed(range, pointers, seconds);
  } else {
    for (const Work& work : range.work) work.kernel->launch(pointers, gpu_.stream());
  }
  gpu_.count_launches(static_cast<std::int64_t>(range.work.size()), with_warpgroups(range.work));
  cargo.launch_out(gpu_.stream());
}

void CudaExecutable::use_addresses(Range& range, Pointers pointers) const {
  forget(range);
  range.addresses.assign(pointers, pointers + addresses_);
  std::vector<Work> work;
  for (ir::NodeId node : range.nodes) work.push_back(work_[static_cast<std::size_t>(node)]);
  range.work = joints_.joined(std::move(work), pointers, range.kernels);
}

void CudaExecutable::capture(Range& range, const Cargo& cargo) const {
  Pointers pointers = range.addresses.data();
  std::vector<std::optional<SmallWork>> works;
  std::vector<int> tasks;
  std::vector<double> costs;
  for (const Work& work : range.work) {
    works.push_back(work.kernel->small(pointers));
    tasks.push_back(works.back() ? works.back()->tasks : 0);
    costs.push_back(work.cost());
  }
  std::vector<Unit> units = units_of(dependencies(range.work, pointers), tasks);
  if (has_large_products_) {
    units = launch_order(units, costs, needed_later(range.work, pointers));
  }
  std::vector<Prepared> prepared;
  for (Unit& unit : units) {
    prepared.push_back(prepare(unit, works));
    unit.early = gpu_.context().early && !prepared.back().program &&
                 range.work[unit.levels[0][0]].kernel->begins_early();
  }
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
      range.work[units[k].levels[0][0]].kernel->launch(pointers, stream);
    }
  };
  const auto alone = [&](const std::byte* bytes, std::size_t count) {
    return std::count_if(range.work.begin(), range.work.end(), [&](const Work& work) {
             return touches(work, pointers, bytes, count);
           }) == 1;
  };
  range.captured = std::make_unique<Captured>(units, launch, in, out, alone);
  for (Prepared& one : prepared) {
    if (one.table != nullptr) range.tables.push_back(std::move(one.table));
  }
  gpu_.count_captured(range.captured->nodes(), with_warpgroups(range.work));
  // Never cudaGraphUpload before the first launch, which brings the run to the device anyway: with
  // driver 580.159 (CUDA 13.0; H100, H200) the upload hangs, or loses the context, where the stream
  // still has work and more nodes of the run wait for nothing than CUDA_DEVICE_MAX_CONNECTIONS.
}

// A unit before all, which those wait for that read what it writes, and one behind all, which waits
// for the one that makes what it reads: neither holds up anything else. A first one that begins
// early waits for it too, which costs it nothing, and spares those behind it.
std::vector<Unit> CudaExecutable::with_cargo(std::vector<Unit> units, const Range& range,
                                             const Cargo& cargo) const {
  const auto uses = [&](const Unit& unit, const std::byte* bytes, std::size_t count) {
    return std::any_of(unit.levels.begin(), unit.levels.end(), [&](const auto& level) {
      return std::any_of(level.begin(), level.end(), [&](std::size_t position) {
        return touches(range.work[position], range.addresses.data(), bytes, count);
      });
    });
  };
  Unit last;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (cargo.out && uses(units[u], cargo.out->from, cargo.out->count)) last.needs.push_back(u);
  }
  if (cargo.out) units.push_back(std::move(last));
  if (!cargo.in) return units;
  std::vector<bool> waits(units.size());  // anyway
  for (std::size_t u = 0; u < units.size(); ++u) {
    Unit& unit = units[u];
    const bool begins = u == 0 && unit.early;
    waits[u] = std::any_of(unit.needs.begin(), unit.needs.end(),
                           [&](std::size_t need) { return waits[need]; });
    for (std::size_t& need : unit.needs) ++need;
    if (begins || (!waits[u] && uses(unit, cargo.in->to, cargo.in->count))) {
      unit.needs.push_back(0);
      waits[u] = true;
    }
  }
  units.insert(units.begin(), Unit());
  return units;
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
  if (range.captured != nullptr) {
    const Selected selected(gpu_.index());
    check(cudaStreamSynchronize(gpu_.stream()), "cudaStreamSynchronize");
    gpu_.forget(*range.captured);
    range.captured.reset();
    range.tables.clear();
  }
  range.work.clear();
  range.kernels.clear();
}

void CudaExecutable::run_timed(const Range& range, Pointers pointers, double* seconds) const {
  for (ir::NodeId node : range.nodes) seconds[node] = 0;
  Stopwatch watch;
  for (const Work& work : range.work) {
    watch.start(gpu_.stream());
    work.kernel->launch(pointers, gpu_.stream());
    watch.stop(gpu_.stream());
    seconds[work.node] = watch.seconds();
  }
}

bool CudaExecutable::all_finite(DataType type, const std::byte* bytes, std::size_t length) const {
  return gpu_.all_finite(type, bytes, length);
}

}  // namespace traingraph::cuda
