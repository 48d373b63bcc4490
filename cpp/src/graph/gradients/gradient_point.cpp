// Runs forward and gradient of a compiled graph for check_gradients, and restores everything that
// these passes change.
#include "graph/gradients/gradient_point.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <traingraph/errors.h>

#include "graph/lowering/loss_scaling.h"
#include "runtime/device_memory.h"
#include "runtime/numbers/half.h"
#include "runtime/threads/waiting.h"

namespace traingraph {
namespace {

void refuse_other_losses(const GraphState& state) {
  const std::string subject = "[check_gradients] expected a graph ";
  if (state.links != nullptr) {
    throw Unsupported(subject +
                      "on its own but it is linked: part of its loss is in another graph");
  }
  if (!state.user_gradients.empty()) {
    throw Unsupported(subject + "without user gradients but tensor '" +
                      state.user_gradients.front().of->label() +
                      "' has one: its loss is outside the graph");
  }
  if (state.loss_layer != nullptr && state.loss_labels.empty()) {
    throw InvalidArgument(
        "[check_gradients] expected loss labels declared by add_inputs but got none");
  }
}

// Differences know no gradient but the derivative.
void refuse_means(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes) {
    const auto* a = std::get_if<ir::EmbeddingAttributes>(&node.attributes);
    if (a == nullptr || !a->by_frequency) continue;
    throw Unsupported(
        "[check_gradients] expected gradients that are derivatives but got means over the picks of "
        "rows, of an embedding that scales by frequency," +
        ir::where(graph, node));
  }
}

// The graph as it is, with what its executions count on their own, and a loss scale to lower. Of
// several ranks this one, with its own rows.
std::shared_ptr<GraphState> counted_apart(const GraphState& state) {
  const std::lock_guard lock(structure());
  refuse_other_losses(state);
  const std::shared_ptr<GraphState> now = state.snapshot();
  now->forward_count = std::make_shared<std::atomic<std::int64_t>>(0);
  now->resumed = std::make_shared<LoadedStep>();
  now->loss_scale = nullptr;
  if (now->buffer_parts != nullptr) {
    throw Unsupported(
        "[check_gradients] expected an optimizer whose buffers are whole but got parts of them; "
        "check a graph that was compiled without shard_optimizer");
  }
  now->ranks = nullptr;
  if (now->precision != Precision::kMixedFloat16) return now;
  now->loss_scale = Tensor::filled(TensorDescriptor({1}), 1);
  now->good_steps = Tensor::filled(TensorDescriptor({1}), 0);
  return now;
}

// Bytes that forward passes write, and what they were.
class KeptBytes {
 public:
  KeptBytes(const LoweredGraph& lowered, const Backend& backend) : backend_(backend) {
    for (const ir::Value& value : lowered.lowering.graph.values) {
      if (value.writes == ir::kNone) continue;
      const ir::Node& writer = lowered.lowering.graph.node(value.producer);
      if (writer.phase != ir::Phase::forward) continue;
      const int slot = lowered.lowering.graph.value(value.writes).slot;
      Tensor& tensor = *lowered.slots[static_cast<std::size_t>(slot)].tensor;
      upload_if_newer(tensor);
      const ParameterState& store = *tensor.state().parameter;
      std::vector<std::byte> bytes(store.bytes());
      read_memory(backend_, bytes.data(), store.master.get(), bytes.size());
      kept_.emplace_back(store.master, std::move(bytes));
    }
  }
  ~KeptBytes() { write_back(); }
  KeptBytes(const KeptBytes&) = delete;
  KeptBytes& operator=(const KeptBytes&) = delete;

 private:
  void write_back() noexcept {
    for (const auto& [master, bytes] : kept_) {
      try {
        write_memory(backend_, master.get(), bytes.data(), bytes.size());
      } catch (const Error&) {
        // The device is lost, and this with it, which is an answer.
      }
    }
  }

  const Backend& backend_;
  std::vector<std::pair<std::shared_ptr<std::byte>, std::vector<std::byte>>> kept_;
};

TensorData newest_value(const Tensor& tensor, Executor* reader) {
  const TensorDescriptor& d = tensor.descriptor();
  TensorData data = TensorData::copy_of(nullptr, 0, d.data_type, d.shape);
  if (reader != nullptr) {
    reader->read(tensor, data.bytes, data.length);
  } else {
    tensor.copy_to(data.bytes, data.length);
  }
  return data;
}

bool are_finite(const std::vector<std::vector<double>>& gradients) {
  return std::all_of(gradients.begin(), gradients.end(), [](const std::vector<double>& gradient) {
    return std::all_of(gradient.begin(), gradient.end(), [](double g) { return std::isfinite(g); });
  });
}

std::vector<std::vector<double>> gradients_of(const LoweredGraph& lowered,
                                              const Executor& executor) {
  std::vector<std::vector<double>> result;
  for (const TensorPtr& tensor : lowered.trained) {
    const bool flows = lowered.gradients.contains(tensor.get());
    result.push_back(flows ? float64_numbers(executor.gradient(*tensor)) : std::vector<double>());
  }
  return result;
}

// Call while holding the stream. A scale at which gradients overflow is halved, as steps do it.
void run_passes(GraphState& graph, Executor& executor, const ExecutionArguments& arguments,
                std::int64_t passes, double scale, GradientPoint& out) {
  for (;;) {
    *graph.forward_count = passes;
    if (graph.loss_scale != nullptr) {
      const auto number = static_cast<float>(scale);
      graph.loss_scale->set_data(
          TensorData::copy_of(&number, sizeof number, DataType::kFloat32, {1}));
    }
    executor.submit(Run::forward_and_gradient, arguments);
    out.gradients = gradients_of(out.lowered, executor);
    scale /= 2;
    if (graph.loss_scale == nullptr || scale < LossScaling::kLeast) return;
    if (are_finite(out.gradients)) return;
    // A step of micro-batches has begun.
    executor.give_up_step(false);
  }
}

}  // namespace

std::vector<double> float64_numbers(const TensorData& data) {
  const auto count = static_cast<std::size_t>(element_count(data.shape));
  std::vector<double> result(count);
  if (data.data_type == DataType::kFloat64) {
    std::memcpy(result.data(), data.bytes, count * sizeof(double));
    return result;
  }
  std::vector<float> floats(count);
  if (ir::is_half(data.data_type)) {
    widen(data.data_type, data.bytes, floats.data(), count);
  } else {
    std::memcpy(floats.data(), data.bytes, count * sizeof(float));
  }
  std::copy(floats.begin(), floats.end(), result.begin());
  return result;
}

GradientPoint gradients_at(GraphState& state, const ExecutionArguments& given) {
  const std::shared_ptr<Executor> users = state.current_executor("check_gradients");
  const std::shared_ptr<GraphState> graph = counted_apart(state);
  const Backend& backend = backend_named(graph->device->backend(), graph->device->index());
  if (!backend.traits().computes) {
    throw Unsupported("[check_gradients] expected a device that computes but got " +
                      graph->device->description());
  }
  users->check_batch(declared_batch(*graph));  // parameters lie as its programs want them

  ExecutionArguments arguments = given;
  arguments.options = ExecutionOptions::kSynchronous;
  GradientPoint out;
  out.graph = graph;
  const auto executor = std::make_shared<Executor>(graph, backend, nullptr, false);
  executor->check_batch(declared_batch(*graph), true);
  executor->take_given(*users);
  {
    const CompilationLock compiling;
    out.lowered = lower(*graph, 0, Mode::training);
  }
  refuse_means(out.lowered.lowering.graph);
  if (out.lowered.ends.empty()) {
    throw InvalidArgument("[check_gradients] expected a graph with a loss but got none");
  }
  if (out.lowered.trained.empty()) {
    throw InvalidArgument("[check_gradients] expected a parameter that is trained but got none");
  }
  executor->run_between([&] {
    float scale = 1;
    if (graph->loss_scale != nullptr) state.loss_scale->copy_to(&scale, sizeof scale);
    {
      const KeptBytes kept(out.lowered, backend);
      run_passes(*graph, *executor, arguments, *state.forward_count, static_cast<double>(scale),
                 out);
      // What the forward pass has made of a parameter is what its gradient is for.
      for (const LoweredGraph::Slot& slot : out.lowered.slots) {
        if (slot.buffer.empty())
          out.values[slot.tensor.get()] = newest_value(*slot.tensor, nullptr);
      }
    }
    out.forward_passes = *graph->forward_count;
    for (const BoundSlot& slot : out.lowered.bound) {
      out.values[slot.tensor.get()] = newest_value(*slot.tensor, executor.get());
    }
  });
  return out;
}

}  // namespace traingraph
