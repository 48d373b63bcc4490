// Runs of a compiled graph on a GPU: kernel by kernel, or as a captured CUDA graph.
#include "backends/cuda/launch/executable.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cuda/distributed/nccl_ranks.h"
#include "backends/cuda/kernel/check.h"
#include "backends/cuda/memory/stopwatch.h"

namespace traingraph::cuda {
namespace {

std::int64_t count_wgmma(const std::vector<Work>& run) {
  return std::count_if(run.begin(), run.end(),
                       [](const Work& work) { return work.kernel->uses_wgmma(); });
}

bool waits_for_ranks(const std::unique_ptr<Kernel>& kernel) {
  return kernel != nullptr && kernel->ranks() != nullptr;
}

}  // namespace

CudaExecutable::CudaExecutable(Gpu& gpu, const ir::Graph& graph,
                               std::vector<std::unique_ptr<Kernel>> kernels, const Context& context)
    : gpu_(gpu),
      kernels_(std::move(kernels)),
      work_(work_of(graph, kernels_)),
      has_large_products_(has_large_products(graph, work_)),
      has_sums_(std::ranges::any_of(kernels_, waits_for_ranks)),
      fusion_(graph, work_, context),
      addresses_(graph.values.size() + graph.nodes.size()) {}

CudaExecutable::~CudaExecutable() {
  for (Range& range : ranges_) {
    try {
      forget(range);
    } catch (...) {
      // The process ends or the device is lost, so nothing can be released.
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
  Range& made = ranges_.emplace_back();
  made.nodes.assign(order, order + count);
  for (const ir::NodeId node : made.nodes) {
    const std::unique_ptr<Kernel>& kernel = kernels_[static_cast<std::size_t>(node)];
    if (!waits_for_ranks(kernel)) continue;
    made.ranks = kernel->ranks();
    ++made.sums;
  }
  return made;
}

bool CudaExecutable::carry_in(std::byte* to, const void* bytes, std::size_t count) {
  if (count > kSmallCopyBytes) return false;
  HostTransfers::Upload& upload = transfers_.upload.emplace();
  upload.to = to;
  upload.count = count;
  std::memcpy(upload.bytes.data(), bytes, count);
  gpu_.count_upload();
  return true;
}

std::unique_ptr<PendingRead> CudaExecutable::carry_out(const std::byte* from, std::size_t bytes) {
  AsyncReads::Reserved reserved = gpu_.reserve_read(bytes);
  if (reserved.read != nullptr) {
    transfers_.download = HostTransfers::Download{reserved.slot, from, bytes};
  }
  return std::move(reserved.read);
}

void CudaExecutable::run(const ir::NodeId* order, std::size_t count, Pointers pointers,
                         double* seconds) {
  const HostTransfers transfers = std::exchange(transfers_, {});
  if (count == 0 && !transfers.upload && !transfers.download) return;
  const Selected selected(gpu_.index());
  const std::lock_guard lock(gpu_.launching);
  Range& asked = range(order, count);
  if (asked.ranks != nullptr) {
    check_ranks();
    asked.ranks->announce(asked.sums);
  }
  run_with_transfers(transfers, asked, pointers, seconds);
  if (transfers.download) {
    check(cudaEventRecord(transfers.download->slot->arrived, gpu_.stream()), "cudaEventRecord");
  }
}

void CudaExecutable::run_with_transfers(const HostTransfers& transfers, Range& range,
                                        Pointers pointers, double* seconds) {
  const bool same =
      std::equal(range.addresses.begin(), range.addresses.end(), pointers, pointers + addresses_);
  if (same && seconds == nullptr && range.work.size() > 1) {
    if (range.captured == nullptr) capture(range, transfers);
    return gpu_.launch(*range.captured, transfers);
  }
  if (!same) use_addresses(range, pointers);
  transfers.enqueue_upload(gpu_.stream());
  if (seconds != nullptr) {
    run_timed(range, pointers, seconds);
  } else {
    for (const Work& work : range.work) work.kernel->launch(pointers, gpu_.stream());
  }
  gpu_.count_launches(static_cast<std::int64_t>(range.work.size()), count_wgmma(range.work));
  transfers.enqueue_download(gpu_.stream());
}

void CudaExecutable::use_addresses(Range& range, Pointers pointers) const {
  forget(range);
  range.addresses.assign(pointers, pointers + addresses_);
  std::vector<Work> work;
  for (ir::NodeId node : range.nodes) work.push_back(work_[static_cast<std::size_t>(node)]);
  range.work = fusion_.fuse(std::move(work), pointers, range.kernels);
}

void CudaExecutable::capture(Range& range, const HostTransfers& transfers) const {
  Pointers pointers = range.addresses.data();
  std::vector<std::optional<MegakernelWork>> works;
  std::vector<int> tasks;
  std::vector<double> costs;
  for (const Work& work : range.work) {
    works.push_back(work.kernel->megakernel_work(pointers));
    tasks.push_back(works.back() ? works.back()->tasks : 0);
    costs.push_back(work.cost());
  }
  std::vector<LaunchGroup> groups = launch_groups_of(dependencies(range.work, pointers), tasks);
  if (has_large_products_) {
    groups = launch_order(groups, costs, needed_later(range.work, pointers));
  }
  std::vector<Prepared> prepared;
  for (LaunchGroup& group : groups) {
    prepared.push_back(prepare(group, works));
    group.dependent_launch = gpu_.context().dependent_launch && !prepared.back().program &&
                             range.work[group.levels[0][0]].kernel->uses_dependent_launch();
  }
  const std::size_t first = transfers.upload ? 1 : 0;  // position of the first of those groups
  groups = with_transfers(std::move(groups), range, transfers);
  const std::size_t upload = transfers.upload ? 0 : groups.size();
  const std::size_t download = first + prepared.size();
  const auto launch = [&](std::size_t k, cudaStream_t stream) {
    if (k == upload) return transfers.enqueue_upload(stream);
    if (k == download) return transfers.enqueue_download(stream);
    const Prepared& one = prepared[k - first];
    if (one.program) {
      one.program->launch(one.table.get(), gpu_.context().cluster_blocks, stream);
    } else {
      range.work[groups[k].levels[0][0]].kernel->launch(pointers, stream);
    }
  };
  const auto used_once = [&](const std::byte* bytes, std::size_t count) {
    return std::count_if(range.work.begin(), range.work.end(), [&](const Work& work) {
             return touches(work, pointers, bytes, count);
           }) == 1;
  };
  range.captured = std::make_unique<CapturedGraph>(groups, launch, upload, download, used_once);
  for (Prepared& one : prepared) {
    if (one.table != nullptr) range.tables.push_back(std::move(one.table));
  }
  gpu_.count_captured(range.captured->nodes(), count_wgmma(range.work));
  // Never call cudaGraphUpload before the first launch, which uploads the graph anyway. With driver
  // 580.159 (CUDA 13.0; H100, H200) the upload hangs, or loses the context, if the stream still has
  // work and the graph has more root nodes than CUDA_DEVICE_MAX_CONNECTIONS.
}

// Adds a group for the upload, which its readers depend on, and one for the download, which depends
// on the writer of its bytes. Neither delays other groups. A first group with dependent launch
// depends on the upload as well. This costs it nothing and spares the groups behind it an edge.
std::vector<LaunchGroup> CudaExecutable::with_transfers(std::vector<LaunchGroup> groups,
                                                        const Range& range,
                                                        const HostTransfers& transfers) const {
  const auto uses = [&](const LaunchGroup& group, const std::byte* bytes, std::size_t count) {
    return std::any_of(group.levels.begin(), group.levels.end(), [&](const auto& level) {
      return std::any_of(level.begin(), level.end(), [&](std::size_t position) {
        return touches(range.work[position], range.addresses.data(), bytes, count);
      });
    });
  };
  LaunchGroup last;
  for (std::size_t u = 0; u < groups.size(); ++u) {
    if (transfers.download &&
        uses(groups[u], transfers.download->from, transfers.download->count)) {
      last.needs.push_back(u);
    }
  }
  if (transfers.download) groups.push_back(std::move(last));
  if (!transfers.upload) return groups;
  std::vector<bool> waits(groups.size());  // directly or transitively, for the upload
  for (std::size_t u = 0; u < groups.size(); ++u) {
    LaunchGroup& group = groups[u];
    const bool begins = u == 0 && group.dependent_launch;
    waits[u] = std::any_of(group.needs.begin(), group.needs.end(),
                           [&](std::size_t need) { return waits[need]; });
    for (std::size_t& need : group.needs) ++need;
    if (begins || (!waits[u] && uses(group, transfers.upload->to, transfers.upload->count))) {
      group.needs.push_back(0);
      waits[u] = true;
    }
  }
  groups.insert(groups.begin(), LaunchGroup());
  return groups;
}

CudaExecutable::Prepared CudaExecutable::prepare(
    const LaunchGroup& group, const std::vector<std::optional<MegakernelWork>>& works) const {
  if (group.levels.size() == 1 && group.levels[0].size() == 1) return {};
  std::vector<std::vector<MegakernelWork>> levels;
  for (const auto& level : group.levels) {
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
