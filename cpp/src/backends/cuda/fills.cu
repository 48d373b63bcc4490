#include "backends/cuda/fills.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "backends/cuda/check.h"

namespace traingraph::cuda {
namespace {

struct Fill {
  std::byte* to;
  std::uint32_t bytes;
  std::uint32_t value;  // of each byte
};
constexpr std::size_t kMostFills = 128, kMostBytes = 256;
// An argument, so that the launch itself carries them.
struct Fills {
  Fill fill[kMostFills];
};

__global__ void __launch_bounds__(kMostBytes) fill_each(const __grid_constant__ Fills fills) {
  const Fill& mine = fills.fill[blockIdx.x];
  if (threadIdx.x < mine.bytes) mine.to[threadIdx.x] = static_cast<std::byte>(mine.value);
}

// What list(nodes or null, count) finds.
template <class F>
std::vector<cudaGraphNode_t> listed(const char* call, F&& list) {
  std::size_t count = 0;
  check(list(nullptr, &count), call);
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) check(list(nodes.data(), &count), call);
  return nodes;
}

// The other ends of a node's edges in one direction. Edges may be of any kind, which CUDA wants to
// tell.
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

// What a node fills, if that is few bytes of one value.
std::optional<Fill> fill_of(cudaGraphNode_t node) {
  cudaGraphNodeType type{};
  check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
  if (type != cudaGraphNodeTypeMemset) return std::nullopt;
  cudaMemsetParams fill{};
  check(cudaGraphMemsetNodeGetParams(node, &fill), "cudaGraphMemsetNodeGetParams");
  const std::size_t bytes = fill.width * fill.elementSize;
  const bool of_bytes = fill.elementSize == 1 || fill.value == 0;
  if (fill.height > 1 || bytes > kMostBytes || !of_bytes) return std::nullopt;
  return Fill{static_cast<std::byte*>(fill.dst), static_cast<std::uint32_t>(bytes), fill.value};
}

bool contains(const std::vector<cudaGraphNode_t>& nodes, cudaGraphNode_t node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

// Edges from all to all, but for those that are there.
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

// Lets what needs a node wait for these instead.
void replace(cudaGraph_t graph, cudaGraphNode_t node, const std::vector<cudaGraphNode_t>& by) {
  add_edges(graph, by, needing(node));
  check(cudaGraphDestroyNode(node), "cudaGraphDestroyNode");
}

// A kernel that waits for `needs`.
cudaGraphNode_t add_fills(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& needs,
                          const Fill* fills, std::size_t count) {
  Fills all{};
  std::copy(fills, fills + count, all.fill);
  void* arguments[] = {&all};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(fill_each);
  kernel.gridDim = static_cast<unsigned>(count);
  kernel.blockDim = kMostBytes;
  kernel.kernelParams = arguments;
  cudaGraphNode_t node = nullptr;
  check(cudaGraphAddKernelNode(&node, graph, needs.data(), needs.size(), &kernel),
        "cudaGraphAddKernelNode");
  return node;
}

}  // namespace

void replace_fills(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& ends,
                   const std::function<bool(const std::byte*, std::size_t)>& alone) {
  const auto is_end = [&](cudaGraphNode_t node) { return contains(ends, node); };
  const auto nodes = listed("cudaGraphGetNodes", [&](cudaGraphNode_t* list, std::size_t* count) {
    return cudaGraphGetNodes(graph, list, count);
  });
  struct Found {
    cudaGraphNode_t node;
    Fill fill;
    bool may_be_first;
  };
  std::vector<Found> found;  // before any is replaced: the ends are nodes of the graph until then
  for (cudaGraphNode_t node : nodes) {
    const std::optional<Fill> fill = fill_of(node);
    if (!fill) continue;
    const std::vector<cudaGraphNode_t> needs = needs_of(node);
    const bool begins = std::all_of(needs.begin(), needs.end(), is_end);
    found.push_back({node, *fill, begins && alone(fill->to, fill->bytes)});
  }
  std::vector<Fill> fills;
  for (const Found& one : found) {
    const std::vector<cudaGraphNode_t> needs = needs_of(one.node);
    if (one.may_be_first) {
      replace(graph, one.node, needs);
      fills.push_back(one.fill);
    } else {
      replace(graph, one.node, {add_fills(graph, needs, &one.fill, 1)});
    }
  }
  if (fills.empty()) return;
  const auto roots =
      listed("cudaGraphGetRootNodes", [&](cudaGraphNode_t* list, std::size_t* count) {
        return cudaGraphGetRootNodes(graph, list, count);
      });
  for (std::size_t k = 0; k < fills.size(); k += kMostFills) {
    const std::size_t of_this = std::min(kMostFills, fills.size() - k);
    add_edges(graph, {add_fills(graph, {}, &fills[k], of_this)}, roots);
  }
}

}  // namespace traingraph::cuda
