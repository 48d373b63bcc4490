#include "backends/cuda/capture.h"

#include <algorithm>

#include "backends/cuda/check.h"
#include "backends/cuda/fills.h"
#include "backends/cuda/node_kernel.h"

namespace traingraph::cuda {
namespace {

// A stream that work is recorded from. Each piece of work waits for given pieces before it, not
// for all that the stream was given. What a failed recording leaves behind goes with the object.
class Recording {
 public:
  // The ends of one piece of work: what others wait for.
  struct Ends {
    std::vector<cudaGraphNode_t> nodes;
    std::vector<cudaGraphEdgeData> edges;
  };

  Recording() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  ~Recording() {
    if (recording_) {
      cudaGraph_t graph = nullptr;
      static_cast<void>(cudaStreamEndCapture(stream_, &graph));
      static_cast<void>(cudaGetLastError());
      if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
    }
    static_cast<void>(cudaStreamDestroy(stream_));
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  cudaStream_t stream() const { return stream_; }

  void begin() {
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
    recording_ = true;
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
  // The graph, which is the caller's.
  cudaGraph_t end() {
    recording_ = false;
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    return graph;
  }

 private:
  cudaStream_t stream_ = nullptr;
  bool recording_ = false;
};

constexpr std::size_t kLargeBytes = std::size_t{16} << 20;

constexpr double kLaunchCost = double{4 << 20};  // what memory moves in the time of a small kernel

bool overlap(const std::byte* a, std::size_t a_bytes, const std::byte* b, std::size_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

std::size_t bytes_of(const std::vector<Access>& accesses) {
  std::size_t bytes = 0;
  for (const Access& access : accesses) bytes += access.bytes;
  return bytes;
}

// Lets what comes after these begin while they are still at work. Only kernels let it.
void overlap_with(Recording::Ends& ends) {
  for (std::size_t k = 0; k < ends.nodes.size(); ++k) {
    cudaGraphNodeType type{};
    check(cudaGraphNodeGetType(ends.nodes[k], &type), "cudaGraphNodeGetType");
    if (type != cudaGraphNodeTypeKernel) continue;
    ends.edges[k].from_port = cudaGraphKernelNodePortProgrammatic;
    ends.edges[k].type = cudaGraphDependencyTypeProgrammatic;
  }
}

// These kernels go first where there is not room for all.
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
    // With a matrix product the memory is not busy.
    work.fills_memory = node.op != ir::Op::matmul && bytes_of(work.accesses) >= kLargeBytes;
  }
  return result;
}

bool has_large_products(const ir::Graph& graph, const std::vector<Work>& by_node) {
  return std::any_of(by_node.begin(), by_node.end(), [&](const Work& work) {
    return graph.node(work.node).op == ir::Op::matmul && bytes_of(work.accesses) >= kLargeBytes;
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
  std::vector<std::vector<bool>> waits(run.size());  // directly or through others
  for (std::size_t k = 0; k < run.size(); ++k) {
    waits[k].resize(k);
    for (std::size_t j = k; j-- > 0;) {
      const bool ordered = (run[k].fills_memory && run[j].fills_memory) ||
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

Captured::Captured(const std::vector<Unit>& units,
                   const std::function<void(std::size_t, cudaStream_t)>& launch, std::size_t in,
                   std::size_t out,
                   const std::function<bool(const std::byte*, std::size_t)>& alone) {
  Recording recording;
  recording.begin();
  std::vector<Recording::Ends> ends;
  for (std::size_t k = 0; k < units.size(); ++k) {
    Recording::Ends before;
    for (std::size_t need : units[k].needs) {
      const Recording::Ends& one = ends[need];
      before.nodes.insert(before.nodes.end(), one.nodes.begin(), one.nodes.end());
      before.edges.insert(before.edges.end(), one.edges.begin(), one.edges.end());
    }
    if (units[k].early) overlap_with(before);
    recording.wait_for(std::move(before));
    launch(k, recording.stream());
    ends.push_back(recording.ends());
    if (units[k].awaited) prefer(ends[k].nodes);
  }
  if (in < units.size()) in_ = ends[in].nodes.front();
  if (out < units.size()) out_ = ends[out].nodes.front();
  graph_.reset(recording.end());
  std::vector<cudaGraphNode_t> last;
  for (const Recording::Ends& one : ends) {
    last.insert(last.end(), one.nodes.begin(), one.nodes.end());
  }
  replace_fills(graph_.get(), last, alone);
  std::size_t nodes = 0;
  check(cudaGraphGetNodes(graph_.get(), nullptr, &nodes), "cudaGraphGetNodes");
  nodes_ = static_cast<std::int64_t>(nodes);
  const bool prefers =
      std::any_of(units.begin(), units.end(), [](const Unit& unit) { return unit.awaited; });
  const unsigned long long flags = prefers ? cudaGraphInstantiateFlagUseNodePriority : 0;
  check(cudaGraphInstantiate(&run_, graph_.get(), flags), "cudaGraphInstantiate");
}

Captured::~Captured() { static_cast<void>(cudaGraphExecDestroy(run_)); }

void Captured::launch(const Cargo& cargo, cudaStream_t stream) const {
  if (in_ == nullptr) {
    cargo.launch_in(stream);
  } else {
    const Cargo::In in = cargo.in.value_or(Cargo::In());
    set_write(run_, in_, in.to, in.bytes.data(), in.count);
  }
  if (out_ != nullptr) {
    const Cargo::Out out = cargo.out.value_or(Cargo::Out());
    set_read(run_, out_, out.place != nullptr ? out.place->bytes : nullptr, out.from, out.count);
  }
  check(cudaGraphLaunch(run_, stream), "cudaGraphLaunch");
  if (out_ == nullptr) cargo.launch_out(stream);
}

}  // namespace traingraph::cuda
