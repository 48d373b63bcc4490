#include "backends/cuda/capture.h"

#include <algorithm>

#include "backends/cuda/check.h"

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

std::size_t bytes_of(const std::vector<Access>& accesses) {
  std::size_t bytes = 0;
  for (const Access& access : accesses) bytes += access.bytes;
  return bytes;
}

// Whether the memory is busy with this node alone; with a matrix product it is not.
bool fills_memory(const ir::Node& node, const std::vector<Access>& accesses) {
  return node.op != ir::Op::matmul && bytes_of(accesses) >= kLargeBytes;
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

bool conflict(const std::vector<Access>& a, const std::vector<Access>& b, Pointers pointers) {
  for (const Access& x : a) {
    for (const Access& y : b) {
      if (!x.writes && !y.writes) continue;
      const std::byte* first = pointers[x.address];
      const std::byte* second = pointers[y.address];
      if (first < second + y.bytes && second < first + x.bytes) return true;
    }
  }
  return false;
}

}  // namespace

Accesses accesses_of(const ir::Graph& graph, const std::vector<std::size_t>& workspace_bytes) {
  Accesses result;
  result.of.resize(graph.nodes.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const ir::Node& node = graph.nodes[n];
    auto add = [&](ir::ValueId id, bool writes) {
      const ir::Value& value = graph.value(id);
      const std::size_t bytes = ir::storage_bytes(value.type, value.layout);
      result.of[n].push_back({static_cast<std::size_t>(id), bytes, writes});
    };
    for (ir::ValueId input : node.inputs) add(input, false);
    for (ir::ValueId output : node.outputs) add(output, true);
    if (workspace_bytes[n] > 0) {
      result.of[n].push_back({graph.values.size() + n, workspace_bytes[n], true});
    }
    result.fills_memory.push_back(fills_memory(node, result.of[n]));
    const std::size_t bytes = bytes_of(result.of[n]);
    result.costs.push_back(static_cast<double>(bytes) + kLaunchCost);
    result.has_large_products =
        result.has_large_products || (node.op == ir::Op::matmul && bytes >= kLargeBytes);
  }
  return result;
}

std::vector<std::vector<std::size_t>> dependencies(const Accesses& accesses,
                                                   const ir::NodeId* order, std::size_t count,
                                                   Pointers pointers) {
  auto of = [&](std::size_t position) -> const std::vector<Access>& {
    return accesses.of[static_cast<std::size_t>(order[position])];
  };
  std::vector<std::vector<std::size_t>> direct(count);
  std::vector<std::vector<bool>> waits(count);  // directly or through others
  std::vector<bool> large(count);
  for (std::size_t k = 0; k < count; ++k) {
    waits[k].resize(k);
    large[k] = accesses.fills_memory[static_cast<std::size_t>(order[k])];
    for (std::size_t j = k; j-- > 0;) {
      const bool ordered = (large[k] && large[j]) || conflict(of(k), of(j), pointers);
      if (waits[k][j] || !ordered) continue;
      direct[k].push_back(j);
      waits[k][j] = true;
      for (std::size_t i = 0; i < j; ++i) waits[k][i] = waits[k][i] || waits[j][i];
    }
  }
  return direct;
}

std::vector<bool> needed_later(const Accesses& accesses, const ir::NodeId* order, std::size_t count,
                               Pointers pointers) {
  std::vector<bool> needed(count);
  for (std::size_t j = 0; j < count; ++j) {
    const auto& earlier = accesses.of[static_cast<std::size_t>(order[j])];
    for (std::size_t k = j + 1; k < count && !needed[j]; ++k) {
      needed[j] = conflict(earlier, accesses.of[static_cast<std::size_t>(order[k])], pointers);
    }
  }
  return needed;
}

Captured::Captured(const std::vector<Unit>& units,
                   const std::function<void(std::size_t, cudaStream_t)>& launch, std::size_t in,
                   std::size_t out) {
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
    recording.wait_for(std::move(before));
    launch(k, recording.stream());
    ends.push_back(recording.ends());
    if (units[k].awaited) prefer(ends[k].nodes);
  }
  if (in < units.size()) in_ = ends[in].nodes.front();
  if (out < units.size()) out_ = ends[out].nodes.front();
  graph_ = recording.end();
  std::size_t nodes = 0;
  check(cudaGraphGetNodes(graph_, nullptr, &nodes), "cudaGraphGetNodes");
  nodes_ = static_cast<std::int64_t>(nodes);
  const bool prefers =
      std::any_of(units.begin(), units.end(), [](const Unit& unit) { return unit.awaited; });
  const unsigned long long flags = prefers ? cudaGraphInstantiateFlagUseNodePriority : 0;
  const cudaError_t made = cudaGraphInstantiate(&run_, graph_, flags);
  if (made != cudaSuccess) static_cast<void>(cudaGraphDestroy(graph_));
  check(made, "cudaGraphInstantiate");
}

Captured::~Captured() {
  static_cast<void>(cudaGraphExecDestroy(run_));
  static_cast<void>(cudaGraphDestroy(graph_));
}

void Captured::upload(cudaStream_t stream) const {
  check(cudaGraphUpload(run_, stream), "cudaGraphUpload");
}

void Captured::launch(const Cargo& cargo, cudaStream_t stream) const {
  const auto& [in, out] = cargo;
  if (in_ == nullptr) {
    cargo.launch_in(stream);
  } else {
    const bool any = in.has_value();
    set_write(run_, in_, any ? in->to : nullptr, any ? in->bytes.data() : nullptr,
              any ? in->count : 0);
  }
  if (out_ != nullptr) {
    const bool any = out.has_value();
    set_read(run_, out_, any ? out->place->bytes : nullptr, any ? out->from : nullptr,
             any ? out->count : 0);
  }
  check(cudaGraphLaunch(run_, stream), "cudaGraphLaunch");
  if (out_ == nullptr) cargo.launch_out(stream);
}

}  // namespace traingraph::cuda
