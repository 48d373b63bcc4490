// The megakernel: a kernel that interprets a table of small ops.
#include "backends/cuda/launch/megakernel.h"

#include <cstring>

#include "backends/cuda/tasks/megakernel_tasks.h"

namespace traingraph::cuda {
namespace {

// The table contains the end of each level in items, padded to 16 bytes, then the items, then the
// arguments.
struct alignas(16) Item {
  std::int32_t kind, task;
  std::int32_t arguments, bytes;  // their offset in the table, and their size
};

constexpr int kMostTableBytes = 160 << 10;

template <class T>
constexpr T padded(T bytes) {
  return (bytes + 15) / 16 * 16;
}

struct alignas(16) Scratch {
  std::byte bytes[MegakernelKinds::kScratchBytes];
};

__device__ void copy_words(const std::byte* from, std::byte* to, int bytes) {
  const auto* const source = reinterpret_cast<const uint4*>(from);
  auto* const target = reinterpret_cast<uint4*>(to);
  for (int k = static_cast<int>(threadIdx.x); k < bytes / 16; k += kThreads) target[k] = source[k];
}

// One level: a block per item.
__global__ void __launch_bounds__(kThreads) run_level(const std::byte* table, int levels_bytes) {
  extern __shared__ uint4 words[];
  auto* const arguments = reinterpret_cast<std::byte*>(words);
  __shared__ Scratch scratch;
  const Item item = reinterpret_cast<const Item*>(table + levels_bytes)[blockIdx.x];
  copy_words(table + item.arguments, arguments, item.bytes);
  __syncthreads();
  MegakernelKinds::run(item.kind, arguments, item.task, &scratch);
}

// Several levels: the grid is one cluster, or one block.
__global__ void __launch_bounds__(kThreads)
    run_levels(const std::byte* table, int levels, int bytes) {
  extern __shared__ uint4 words[];
  auto* const copy = reinterpret_cast<std::byte*>(words);
  __shared__ Scratch scratch;
  copy_words(table, copy, bytes);
  __syncthreads();
  const auto* const ends = reinterpret_cast<const std::int32_t*>(copy);
  const auto* const items = reinterpret_cast<const Item*>(copy + padded(levels * 4));
  for (int level = 0, first = 0; level < levels; ++level) {
    const int end = ends[level];
    for (int k = first + static_cast<int>(blockIdx.x); k < end; k += static_cast<int>(gridDim.x)) {
      const Item item = items[k];
      MegakernelKinds::run(item.kind, copy + item.arguments, item.task, &scratch);
      __syncthreads();
    }
    first = end;
    if (level + 1 < levels) sync_cluster();
  }
}

}  // namespace

Megakernel::Megakernel(const std::vector<std::vector<MegakernelWork>>& levels)
    : levels_(static_cast<int>(levels.size())) {
  std::vector<std::int32_t> ends;
  std::vector<Item> items;
  std::vector<std::byte> arguments;
  for (const std::vector<MegakernelWork>& level : levels) {
    const std::size_t before = items.size();
    for (const MegakernelWork& work : level) {
      const Item item{work.kind, 0, static_cast<std::int32_t>(arguments.size()),
                      static_cast<std::int32_t>(padded(work.arguments.size()))};
      arguments.insert(arguments.end(), work.arguments.begin(), work.arguments.end());
      most_argument_bytes_ = std::max(most_argument_bytes_, padded(work.arguments.size()));
      arguments.resize(padded(arguments.size()));
      for (int task = 0; task < work.tasks; ++task) {
        items.push_back(item);
        items.back().task = task;
      }
    }
    ends.push_back(static_cast<std::int32_t>(items.size()));
    most_tasks_ = std::max(most_tasks_, static_cast<int>(items.size() - before));
  }
  const std::size_t items_at = padded(ends.size() * sizeof ends[0]);
  const std::size_t arguments_at = items_at + items.size() * sizeof items[0];
  for (Item& item : items) item.arguments += static_cast<std::int32_t>(arguments_at);
  table_.resize(arguments_at + arguments.size());
  std::memcpy(table_.data(), ends.data(), ends.size() * sizeof ends[0]);
  std::memcpy(table_.data() + items_at, items.data(), items.size() * sizeof items[0]);
  std::memcpy(table_.data() + arguments_at, arguments.data(), arguments.size());
}

void Megakernel::launch(const std::byte* table, int cluster_blocks, cudaStream_t stream) const {
  if (levels_ == 1) {
    run_level<<<static_cast<unsigned>(most_tasks_), kThreads, most_argument_bytes_, stream>>>(
        table, static_cast<int>(padded(sizeof(std::int32_t))));
    return check_launch("a megakernel of one level");
  }
  int blocks = 1;
  while (blocks < cluster_blocks && blocks < most_tasks_) blocks *= 2;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(blocks);
  config.blockDim = kThreads;
  config.dynamicSmemBytes = table_.size();
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = blocks > 1 ? 1 : 0;
  check(cudaLaunchKernelEx(&config, run_levels, table, levels_, static_cast<int>(table_.size())),
        "a megakernel");
}

int compiled_for() {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, run_levels), "cudaFuncGetAttributes");
  return attributes.ptxVersion;
}

int most_cluster_blocks() {
  if (compiled_for() < 90) return 1;
  constexpr int kMost = 16, kPortable = 8;
  check(cudaFuncSetAttribute(run_levels, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kMostTableBytes),
        "cudaFuncSetAttribute");
  check(cudaFuncSetAttribute(run_levels, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
        "cudaFuncSetAttribute");
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {kMost, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = kMost;
  config.blockDim = kThreads;
  config.dynamicSmemBytes = kMostTableBytes;
  config.attrs = &cluster;
  config.numAttrs = 1;
  int clusters = 0;
  check(cudaOccupancyMaxActiveClusters(&clusters, run_levels, &config),
        "cudaOccupancyMaxActiveClusters");
  return clusters > 0 ? kMost : kPortable;
}

}  // namespace traingraph::cuda
