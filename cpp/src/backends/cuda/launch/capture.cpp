// Captures a run as a CUDA graph with edges between dependent work only, and launches it.
#include "backends/cuda/launch/capture.h"

#include <algorithm>

#include "backends/cuda/kernel/check.h"
#include "backends/cuda/kernel/node_kernel.h"
#include "backends/cuda/launch/memset_nodes.h"

namespace traingraph::cuda {
namespace {

// A stream in capture mode. Each piece of work depends on given earlier pieces, not on everything
// that the stream has enqueued. The destructor discards a capture that failed.
class StreamCapture {
 public:
  // The last nodes of a piece of work, which others depend on.
  struct Ends {
    std::vector<cudaGraphNode_t> nodes;
    std::vector<cudaGraphEdgeData> edges;
  };

  StreamCapture() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  ~StreamCapture() {
    if (capturing_) {
      cudaGraph_t graph = nullptr;
      static_cast<void>(cudaStreamEndCapture(stream_, &graph));
      static_cast<void>(cudaGetLastError());
      if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
    }
    static_cast<void>(cudaStreamDestroy(stream_));
  }
  StreamCapture(const StreamCapture&) = delete;
  StreamCapture& operator=(const StreamCapture&) = delete;

  cudaStream_t stream() const { return stream_; }

  void begin() {
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
    capturing_ = true;
  }
  void wait_for(Ends ends) {
    check(cudaStreamUpdateCaptureDependencies(stream_, ends.nodes.data(), ends.edges.data(),
                                              ends.nodes.size(), cudaStreamSetCaptureDependencies),
          "cudaStreamUpdateCaptureDependencies");
  }
  Ends ends() const {
    cudaStreamCaptureStatus status{};
    const cudaGraphNode_t* nodes = nullptr;
    const cudaGraphEdgeData* edges = nullptr;
    std::size_t count = 0;
    check(cudaStreamGetCaptureInfo(stream_, &status, nullptr, nullptr, &nodes, &edges, &count),
          "cudaStreamGetCaptureInfo");
    Ends result;
    result.nodes.assign(nodes, nodes + count);
    result.edges.resize(count);
    if (edges != nullptr) std::copy(edges, edges + count, result.edges.begin());
    return result;
  }
  // Ends the capture. The caller owns the graph.
  cudaGraph_t end() {
    capturing_ = false;
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    return graph;
  }

 private:
  cudaStream_t stream_ = nullptr;
  bool capturing_ = false;
};

constexpr std::size_t kLargeBytes = std::size_t{16} << 20;
constexpr std::size_t kLargeProductBytes = std::size_t{4} << 20;

// Bytes that memory moves in the time of a small kernel.
constexpr double kLaunchCost = double{4 << 20};

bool overlap(const std::byte* a, std::size_t a_bytes, const std::byte* b, std::size_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

std::size_t bytes_of(const std::vector<Access>& accesses) {
  std::size_t bytes = 0;
  for (const Access& access : accesses) bytes += access.bytes;
  return bytes;
}

// Turns edges into programmatic ones, so that the next kernel may start while its predecessors run.
// Only kernels as predecessors allow it.
void make_programmatic(StreamCapture::Ends& ends) {
  for (std::size_t k = 0; k < ends.nodes.size(); ++k) {
    cudaGraphNodeType type{};
    check(cudaGraphNodeGetType(ends.nodes[k], &type), "cudaGraphNodeGetType");
    if (type != cudaGraphNodeTypeKernel) continue;
    ends.edges[k].from_port = cudaGraphKernelNodePortProgrammatic;
    ends.edges[k].type = cudaGraphDependencyTypeProgrammatic;
  }
}

// Gives these kernels the highest priority.
void prefer(const std::vector<cudaGraphNode_t>& nodes) {
  int least = 0;
  cudaLaunchAttributeValue value{};
  check(cudaDeviceGetStreamPriorityRange(&least, &value.priority),
        "cudaDeviceGetStreamPriorityRange");
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
    if (type != cudaGraphNodeTypeKernel) continue;
    check(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributePriority, &value),
          "cudaGraphKernelNodeSetAttribute");
  }
}

}  // namespace

double Work::cost() const { return static_cast<double>(bytes_of(accesses)) + kLaunchCost; }

std::vector<Work> work_of(const ir::Graph& graph,
                          const std::vector<std::unique_ptr<Kernel>>& kernels) {
  std::vector<Work> result;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const ir::Node& node = graph.nodes[n];
    Work& work = result.emplace_back(Work{static_cast<ir::NodeId>(n), kernels[n].get(), {}, false});
    auto add = [&](ir::ValueId id, bool writes) {
      const ir::Value& value = graph.value(id);
      const std::size_t bytes = ir::storage_bytes(value.type, value.layout);
      work.accesses.push_back({static_cast<std::size_t>(root_of(graph, id)), bytes, writes});
    };
    for (ir::ValueId input : node.inputs) add(input, false);
    for (ir::ValueId output : node.outputs) add(output, true);
    const std::size_t workspace = kernels[n] != nullptr ? kernels[n]->workspace_bytes() : 0;
    if (workspace > 0) work.accesses.push_back({graph.values.size() + n, workspace, true});
    // A matrix product does not saturate memory bandwidth, and a sum over ranks waits.
    work.saturates_memory = node.op != ir::Op::matmul && node.op != ir::Op::all_reduce &&
                            bytes_of(work.accesses) >= kLargeBytes;
  }
  return result;
}

bool has_large_products(const ir::Graph& graph, const std::vector<Work>& by_node) {
  return std::any_of(by_node.begin(), by_node.end(), [&](const Work& work) {
    return graph.node(work.node).op == ir::Op::matmul &&
           bytes_of(work.accesses) >= kLargeProductBytes;
  });
}

bool touches(const Work& work, Pointers pointers, const std::byte* bytes, std::size_t count) {
  return std::any_of(work.accesses.begin(), work.accesses.end(), [&](const Access& access) {
    return overlap(pointers[access.address], access.bytes, bytes, count);
  });
}

bool conflict(const std::vector<Access>& a, const std::vector<Access>& b, Pointers pointers) {
  for (const Access& x : a) {
    for (const Access& y : b) {
      if (!x.writes && !y.writes) continue;
      if (overlap(pointers[x.address], x.bytes, pointers[y.address], y.bytes)) return true;
    }
  }
  return false;
}

std::vector<std::vector<std::size_t>> dependencies(const std::vector<Work>& run,
                                                   Pointers pointers) {
  std::vector<std::vector<std::size_t>> direct(run.size());
  std::vector<std::vector<bool>> waits(run.size());  // directly or transitively
  for (std::size_t k = 0; k < run.size(); ++k) {
    waits[k].resize(k);
    for (std::size_t j = k; j-- > 0;) {
      const bool ordered = (run[k].saturates_memory && run[j].saturates_memory) ||
                           conflict(run[k].accesses, run[j].accesses, pointers);
      if (waits[k][j] || !ordered) continue;
      direct[k].push_back(j);
      waits[k][j] = true;
      for (std::size_t i = 0; i < j; ++i) waits[k][i] = waits[k][i] || waits[j][i];
    }
  }
  return direct;
}

std::vector<bool> needed_later(const std::vector<Work>& run, Pointers pointers) {
  std::vector<bool> needed(run.size());
  for (std::size_t j = 0; j < run.size(); ++j) {
    for (std::size_t k = j + 1; k < run.size() && !needed[j]; ++k) {
      needed[j] = conflict(run[j].accesses, run[k].accesses, pointers);
    }
  }
  return needed;
}

CapturedGraph::CapturedGraph(const std::vector<LaunchGroup>& groups,
                             const std::function<void(std::size_t, cudaStream_t)>& launch,
                             std::size_t upload, std::size_t download,
                             const std::function<bool(const std::byte*, std::size_t)>& used_once) {
  StreamCapture capture;
  capture.begin();
  std::vector<StreamCapture::Ends> ends;
  for (std::size_t k = 0; k < groups.size(); ++k) {
    StreamCapture::Ends before;
    for (std::size_t need : groups[k].needs) {
      const StreamCapture::Ends& one = ends[need];
      before.nodes.insert(before.nodes.end(), one.nodes.begin(), one.nodes.end());
      before.edges.insert(before.edges.end(), one.edges.begin(), one.edges.end());
    }
    if (groups[k].dependent_launch) make_programmatic(before);
    capture.wait_for(std::move(before));
    launch(k, capture.stream());
    ends.push_back(capture.ends());
    if (groups[k].awaited) prefer(ends[k].nodes);
  }
  if (upload < groups.size()) upload_node_ = ends[upload].nodes.front();
  if (download < groups.size()) download_node_ = ends[download].nodes.front();
  graph_.reset(capture.end());
  std::vector<cudaGraphNode_t> last;
  for (const StreamCapture::Ends& one : ends) {
    last.insert(last.end(), one.nodes.begin(), one.nodes.end());
  }
  replace_memset_nodes(graph_.get(), last, used_once);
  std::size_t nodes = 0;
  check(cudaGraphGetNodes(graph_.get(), nullptr, &nodes), "cudaGraphGetNodes");
  nodes_ = static_cast<std::int64_t>(nodes);
  const bool prefers = std::any_of(groups.begin(), groups.end(),
                                   [](const LaunchGroup& group) { return group.awaited; });
  const unsigned long long flags = prefers ? cudaGraphInstantiateFlagUseNodePriority : 0;
  check(cudaGraphInstantiate(&exec_, graph_.get(), flags), "cudaGraphInstantiate");
}

// CUDA serves the process that has started it.
CapturedGraph::~CapturedGraph() {
  if (made_in_ == detail::forks) {
    static_cast<void>(cudaGraphExecDestroy(exec_));
  } else {
    static_cast<void>(graph_.release());
  }
}

void CapturedGraph::launch(const HostTransfers& transfers, cudaStream_t stream) const {
  if (upload_node_ == nullptr) {
    transfers.enqueue_upload(stream);
  } else {
    const HostTransfers::Upload upload = transfers.upload.value_or(HostTransfers::Upload());
    set_write_node(exec_, upload_node_, upload.to, upload.bytes.data(), upload.count);
  }
  if (download_node_ != nullptr) {
    const HostTransfers::Download download = transfers.download.value_or(HostTransfers::Download());
    set_read_node(exec_, download_node_, download.slot != nullptr ? download.slot->bytes : nullptr,
                  download.from, download.count);
  }
  check(cudaGraphLaunch(exec_, stream), "cudaGraphLaunch");
  if (download_node_ == nullptr) transfers.enqueue_download(stream);
}

}  // namespace traingraph::cuda
