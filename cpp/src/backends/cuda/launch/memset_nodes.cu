// Replaces the small memset nodes of a captured graph by one kernel.
#include "backends/cuda/launch/memset_nodes.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "backends/cuda/kernel/check.h"

namespace traingraph::cuda {
namespace {

struct Memset {
  std::byte* to;
  std::uint32_t bytes;
  std::uint32_t value;  // of each byte
};
constexpr std::size_t kMostMemsets = 128, kMostBytes = 256;
// A kernel argument, so that the launch itself transports it.
struct Memsets {
  Memset memset[kMostMemsets];
};

__global__ void __launch_bounds__(kMostBytes) memset_each(const __grid_constant__ Memsets memsets) {
  const Memset& mine = memsets.memset[blockIdx.x];
  if (threadIdx.x < mine.bytes) mine.to[threadIdx.x] = static_cast<std::byte>(mine.value);
}

// Calls list(nodes or null, count) for the count, then for the nodes.
template <class F>
std::vector<cudaGraphNode_t> listed(const char* call, F&& list) {
  std::size_t count = 0;
  check(list(nullptr, &count), call);
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) check(list(nodes.data(), &count), call);
  return nodes;
}

// The neighbours of a node in one direction. CUDA requires room for the edges' data, because edges
// may be programmatic.
template <class F>
std::vector<cudaGraphNode_t> neighbours(const char* call, F* list, cudaGraphNode_t node) {
  return listed(call, [&](cudaGraphNode_t* nodes, std::size_t* count) {
    std::vector<cudaGraphEdgeData> edges(*count);
    return list(node, nodes, edges.data(), count);
  });
}
std::vector<cudaGraphNode_t> needs_of(cudaGraphNode_t node) {
  return neighbours("cudaGraphNodeGetDependencies", cudaGraphNodeGetDependencies, node);
}
std::vector<cudaGraphNode_t> needing(cudaGraphNode_t node) {
  return neighbours("cudaGraphNodeGetDependentNodes", cudaGraphNodeGetDependentNodes, node);
}

// The memset of a node, if it sets few bytes to one value.
std::optional<Memset> memset_of(cudaGraphNode_t node) {
  cudaGraphNodeType type{};
  check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
  if (type != cudaGraphNodeTypeMemset) return std::nullopt;
  cudaMemsetParams memset{};
  check(cudaGraphMemsetNodeGetParams(node, &memset), "cudaGraphMemsetNodeGetParams");
  const std::size_t bytes = memset.width * memset.elementSize;
  const bool of_bytes = memset.elementSize == 1 || memset.value == 0;
  if (memset.height > 1 || bytes > kMostBytes || !of_bytes) return std::nullopt;
  return Memset{static_cast<std::byte*>(memset.dst), static_cast<std::uint32_t>(bytes),
                memset.value};
}

bool contains(const std::vector<cudaGraphNode_t>& nodes, cudaGraphNode_t node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

// Adds all edges between two sets of nodes, except existing ones.
void add_edges(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& from,
               const std::vector<cudaGraphNode_t>& to) {
  for (cudaGraphNode_t later : to) {
    const std::vector<cudaGraphNode_t> there = needs_of(later);
    for (cudaGraphNode_t earlier : from) {
      if (contains(there, earlier)) continue;
      check(cudaGraphAddDependencies(graph, &earlier, &later, nullptr, 1),
            "cudaGraphAddDependencies");
    }
  }
}

// Replaces a node as a dependency of others, and removes it.
void replace(cudaGraph_t graph, cudaGraphNode_t node, const std::vector<cudaGraphNode_t>& by) {
  add_edges(graph, by, needing(node));
  check(cudaGraphDestroyNode(node), "cudaGraphDestroyNode");
}

// Adds a kernel that depends on `needs`.
cudaGraphNode_t add_memset_kernel(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& needs,
                                  const Memset* memsets, std::size_t count) {
  Memsets all{};
  std::copy(memsets, memsets + count, all.memset);
  void* arguments[] = {&all};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(memset_each);
  kernel.gridDim = static_cast<unsigned>(count);
  kernel.blockDim = kMostBytes;
  kernel.kernelParams = arguments;
  cudaGraphNode_t node = nullptr;
  check(cudaGraphAddKernelNode(&node, graph, needs.data(), needs.size(), &kernel),
        "cudaGraphAddKernelNode");
  return node;
}

}  // namespace

void replace_memset_nodes(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& ends,
                          const std::function<bool(const std::byte*, std::size_t)>& used_once) {
  const auto is_end = [&](cudaGraphNode_t node) { return contains(ends, node); };
  const auto nodes = listed("cudaGraphGetNodes", [&](cudaGraphNode_t* list, std::size_t* count) {
    return cudaGraphGetNodes(graph, list, count);
  });
  struct Found {
    cudaGraphNode_t node;
    Memset memset;
    bool may_be_first;
  };
  std::vector<Found>
      found;  // collected first: `ends` are nodes of the graph only until they are replaced
  for (cudaGraphNode_t node : nodes) {
    const std::optional<Memset> memset = memset_of(node);
    if (!memset) continue;
    const std::vector<cudaGraphNode_t> needs = needs_of(node);
    const bool is_first = std::all_of(needs.begin(), needs.end(), is_end);
    found.push_back({node, *memset, is_first && used_once(memset->to, memset->bytes)});
  }
  std::vector<Memset> memsets;
  for (const Found& one : found) {
    const std::vector<cudaGraphNode_t> needs = needs_of(one.node);
    if (one.may_be_first) {
      replace(graph, one.node, needs);
      memsets.push_back(one.memset);
    } else {
      replace(graph, one.node, {add_memset_kernel(graph, needs, &one.memset, 1)});
    }
  }
  if (memsets.empty()) return;
  const auto roots =
      listed("cudaGraphGetRootNodes", [&](cudaGraphNode_t* list, std::size_t* count) {
        return cudaGraphGetRootNodes(graph, list, count);
      });
  for (std::size_t k = 0; k < memsets.size(); k += kMostMemsets) {
    const std::size_t of_this = std::min(kMostMemsets, memsets.size() - k);
    add_edges(graph, {add_memset_kernel(graph, {}, &memsets[k], of_this)}, roots);
  }
}

}  // namespace traingraph::cuda
