// Over 400 lines: one walk over the nodes settles sources, losses and what stays readable.
#include "graph/lowering/lowering.h"

#include <algorithm>
#include <set>
#include <utility>

#include <traingraph/loss.h>

#include <traingraph/errors.h>

#include "graph/lowering/floating_type.h"
#include "graph/lowering/fold_constants.h"
#include "graph/lowering/integer_ranges.h"
#include "graph/lowering/meeting_rows.h"
#include "graph/lowering/micro_batch_draws.h"
#include "graph/lowering/over_rows.h"
#include "graph/lowering/training_lowering.h"
#include "graph/state/link_set.h"
#include "layers/real_rows.h"
#include "runtime/device_memory.h"
#include "runtime/foreign_streams.h"
#include "runtime/memory/parameter_store.h"
#include "runtime/threads/interruption.h"

namespace traingraph {
namespace {

using ir::kNone;
using ir::ValueId;

bool has_data(TensorState& state) {
  const std::lock_guard lock(state.host);
  return state.given().bytes != nullptr;
}

class Writer {
 public:
  Writer(const GraphState& state, std::int64_t batch, Mode mode, bool fewer = false)
      : state_(state), mode_(mode) {
    out_.lowering.takes_fewer_rows = fewer;
    out_.lowering.kernels_count_rows = fewer && state.device && kernels_count_rows();
    out_.lowering.joins_projections = state.device && backend().traits().joins_projections;
    out_.lowering.random_seed = state.random_seed;
    out_.lowering.training = mode == Mode::training;
    out_.lowering.in_larger_batch = state.micro_batches > 1 || state.ranks != nullptr;
    if (state.ranks != nullptr && state.distributed.synchronized_batch_norm) {
      out_.lowering.batch_norm_ranks = state.ranks->number();
      out_.lowering.graph_of_ranks = state.graph_of_ranks;
    }
    out_.lowering.declared_batch = declared_batch(state);
    out_.lowering.batch = batch != 0 ? batch : out_.lowering.declared_batch;
    for (const TensorParameter& p : state.tensor_parameters) {
      tensor_parameters_.insert(p.tensor.get());
    }
    nodes_ = state.ordered_nodes();
    if (nodes_.empty()) {
      throw InvalidArgument("[compile] expected at least one layer but the graph has none");
    }
    for (const NodeRecord& node : nodes_) {
      for (const TensorParameter* parameter : node.layer->parameters()) {
        if (!state.may_train(parameter->tensor)) {
          out_.lowering.frozen.insert(parameter->tensor.get());
        }
      }
      if (!node.disable_update) continue;
      for (const auto& [name, tensor] : node.layer->named_parameters()) {
        out_.lowering.frozen.insert(tensor.get());
      }
    }
    out_.lowering.data_type = floating_type_of(nodes_, tensor_parameters_);
    if (out_.lowering.data_type == DataType::kFloat64 && state.precision != Precision::kFloat32) {
      throw DataTypeError(std::string("[compile] expected float32 tensors for precision ") +
                          name(state.precision) + " but got float64");
    }
  }

  LoweredGraph write() {
    for (const auto* group : {&state_.inputs, &state_.loss_labels, &state_.loss_label_weights}) {
      if (mode_ == Mode::prediction && group != &state_.inputs) continue;
      for (const auto& [name, tensor] : *group) {
        if (!state_.constants.contains(tensor)) declare(name, tensor);
      }
    }
    if (mode_ == Mode::prediction) {
      nodes_ = nodes_without_losses();
      if (nodes_.empty()) throw InvalidArgument("[predict] expected a layer that is no loss");
    }
    for (const NodeRecord& node : nodes_) {
      check_compilation();
      emit(*node.layer, node.sources, &node.results);
    }
    check_declared();
    const NodeRecord& last = nodes_.back();
    out_.result_tensor = last.results.front();
    check_loss_layer();
    const bool scores = state_.loss_layer != nullptr && !state_.loss_labels.empty();
    if (scores && mode_ != Mode::prediction) add_loss();
    find_ends();
    report_loss();
    out_.result = out_.tensors.at(out_.result_tensor.get());
    mark_readable();
    if (out_.lowering.training && out_.lowering.in_larger_batch) draw_by_micro_batch(out_.lowering);
    add_index_checks(out_, runs_on_gpu());
    if (out_.lowering.takes_fewer_rows) {
      out_.meeting = where_rows_meet(out_.lowering);
      if (!out_.meeting.empty()) return std::move(out_);
    }
    if (out_.lowering.training) add_training(state_, nodes_, out_);
    for (std::size_t s = 0; s < out_.lowering.parameters.size(); ++s) {
      if (s >= out_.slots.size()) out_.slots.push_back({out_.lowering.parameters[s], "", kNone});
    }
    out_.counts_rows = out_.lowering.step_values.contains(ir::StepInput::rows);
    find_integer_ranges(out_);
    if (!state_.constants.empty()) fold_constants(state_, out_);
    return std::move(out_);
  }

 private:
  ir::Graph& graph() { return out_.lowering.graph; }

  const Backend& backend() const {
    return backend_named(state_.device->backend(), state_.device->index());
  }
  bool kernels_count_rows() const {
    if (uses_host_memory(backend())) return true;
    const bool is_wide =
        state_.precision == Precision::kFloat32 || state_.precision == Precision::kTf32;
    return is_wide && backend().traits().counts_rows;
  }
  bool runs_on_gpu() const { return state_.device && gpu_of(backend()) >= 0; }

  ValueId bind(const std::string& name, const TensorPtr& tensor, bool declared) {
    const auto found = out_.tensors.find(tensor.get());
    if (found != out_.tensors.end()) return found->second;
    ir::Type type{tensor->descriptor().data_type, tensor->descriptor().shape, false};
    const std::int64_t batch = out_.lowering.declared_batch;
    if (declared && batch != 0 && type.shape[0] == batch) {
      type.batched = true;
      type.shape[0] = out_.lowering.batch;
    }
    const int slot = static_cast<int>(out_.bound.size());
    const ValueId value = graph().add_source(ir::Source::bound, slot, std::move(type), name);
    out_.bound.push_back({name, tensor, value, {}});
    out_.tensors.emplace(tensor.get(), value);
    return value;
  }

  void declare(const std::string& name, const TensorPtr& tensor) {
    const std::size_t before = out_.bound.size();
    bind(name, tensor, true);
    const bool is_new = out_.bound.size() > before;
    if (is_new && state_.links != nullptr && state_.links->imports(state_, tensor.get())) {
      out_.bound.back().from = BoundSlot::From::caller_or_link;
    }
  }

  bool is_tensor_parameter(const Tensor* tensor) const {
    return tensor_parameters_.contains(tensor);
  }

  ValueId source(const TensorPtr& tensor) {
    const auto found = out_.tensors.find(tensor.get());
    if (found != out_.tensors.end()) return found->second;
    // A tensor with data that nobody declared is a constant of the graph, or a trained input.
    const bool held = tensor->state().parameter != nullptr || has_data(tensor->state()) ||
                      state_.constants.contains(tensor);
    if (held || is_tensor_parameter(tensor.get())) {
      const ValueId value = out_.lowering.parameter(tensor, tensor->descriptor().shape);
      out_.tensors.emplace(tensor.get(), value);
      return value;
    }
    if (state_.links != nullptr && state_.links->imports(state_, tensor.get())) {
      const bool has_batch = tensor->descriptor().shape[0] == out_.lowering.declared_batch &&
                             state_.links->is_fed(tensor.get());
      const ValueId value = bind(tensor->label(), tensor, has_batch);
      out_.bound.back().from = BoundSlot::From::linked_value;
      return value;
    }
    return bind(tensor->label(), tensor, false);
  }

  void emit(const Layer& layer, std::vector<TensorPtr> sources,
            const std::vector<TensorPtr>* results) {
    const auto* loss = dynamic_cast<const Loss*>(&layer);
    if (loss != nullptr) read_weights(*loss, sources);
    std::vector<ValueId> values;
    std::vector<OverRows> over;
    Rows rows{};
    for (const TensorPtr& tensor : sources) {
      values.push_back(source(tensor));
      const Rows one = rows_of(tensor.get(), values.back());
      over.push_back(one.of);
      if (rows.joined_by == nullptr) rows.joined_by = one.joined_by;
    }
    rows.of = over_rows(layer, over);
    const std::string fixed_before = std::exchange(graph().fixed_batch, "");
    Emitter emitter(out_.lowering, layer, read_by(layer, graph(), std::move(values), widened_),
                    sources);
    layer.emit(emitter);
    // What moves or merges the axis of the batch is not of each row any more.
    if (!graph().fixed_batch.empty() && rows.of != OverRows::alike) rows.of = OverRows::other;
    if (!fixed_before.empty()) graph().fixed_batch = fixed_before;
    if (rows.joined_by == nullptr && rows.of == OverRows::other) rows.joined_by = &layer;
    if (emitter.results.size() != results->size()) {
      emitter.fail_shape("expected " + std::to_string(results->size()) + " results but got " +
                         std::to_string(emitter.results.size()));
    }
    for (std::size_t k = 0; k < results->size(); ++k) {
      out_.tensors.emplace((*results)[k].get(), emitter.results.at(k));
      rows_[(*results)[k].get()] = rows;
    }
    if (loss != nullptr) {
      means_[results->front()] = loss->descriptor().reduction == ReductionType::kMean;
      loss_sources_.push_back(sources.front().get());
      out_.result_tensor = results->front();
      // Of an expression nothing is compared.
      out_.prediction = sources.size() > 1 ? sources[0] : nullptr;
      out_.label = sources.size() > 1 ? sources[1] : nullptr;
    }
  }

  // What a tensor is over rows, and the first layer before it that takes them together otherwise.
  struct Rows {
    OverRows of;
    const Layer* joined_by;  // null: none
  };
  Rows rows_of(const Tensor* tensor, ValueId value) {
    const auto result = rows_.find(tensor);
    if (result != rows_.end()) return result->second;
    return {graph().type(value).batched ? OverRows::each : OverRows::alike, nullptr};
  }

  // Weights of a loss that are declared are fed like other data.
  void read_weights(const Loss& loss, std::vector<TensorPtr>& sources) const {
    check_weights(loss, sources);
    if (sources.size() == 2 && loss.weights() != nullptr &&
        out_.tensors.contains(loss.weights().get())) {
      sources.push_back(loss.weights());
    }
  }

  // A layer's parameter has a value of its own and would not see what an execution is fed.
  void check_declared() const {
    for (const auto* group : {&state_.inputs, &state_.loss_labels, &state_.loss_label_weights}) {
      for (const auto& [name, tensor] : *group) {
        if (state_.constants.contains(tensor)) continue;
        if (!out_.lowering.parameter_values.contains(tensor.get())) continue;
        throw InvalidArgument("[add_inputs] expected tensors that no layer holds but got '" +
                              tensor->label() + "' for '" + name + "'");
      }
    }
  }

  // Gradients start where losses end: at a loss, or at what other layers made of losses.
  void find_ends() {
    std::set<const Tensor*> read;
    for (const NodeRecord& node : nodes_) {
      bool is_scored = false;
      bool is_mean = true;
      for (const TensorPtr& tensor : node.sources) {
        const auto loss = means_.find(tensor);
        read.insert(tensor.get());
        if (loss == means_.end()) continue;
        is_scored = true;
        is_mean = is_mean && loss->second;
      }
      if (!is_scored || dynamic_cast<const Loss*>(node.layer.get()) != nullptr) continue;
      for (const TensorPtr& result : node.results) means_[result] = is_mean;
    }
    for (const auto& [tensor, are_means] : means_) {
      if (read.contains(tensor.get())) continue;
      const auto& [of, joined_by] = rows_.at(tensor.get());
      if (of == OverRows::other && state_.ranks != nullptr) refuse_joined_rows(*joined_by);
      // Of tensors without a batch the layers say it alone.
      const bool is_known = of != OverRows::other && of != OverRows::alike;
      const bool is_mean = is_known ? of == OverRows::mean : are_means;
      out_.ends.push_back({out_.tensors.at(tensor.get()), is_mean, tensor});
    }
    std::sort(out_.ends.begin(), out_.ends.end(),
              [](const auto& a, const auto& b) { return a.value < b.value; });
  }

  [[noreturn]] static void refuse_joined_rows(const Layer& layer) {
    throw Unsupported(
        "[compile] expected a loss over several ranks that is a mean of something of each row, or "
        "a sum of means, but got rows that layer " +
        std::to_string(layer.id()) + " '" + layer.label() +
        "' takes together otherwise, of which each rank would see its own alone; join rows by "
        "nn.mean, and only add what it gives");
  }

  // Training reports what it is trained on, whichever layer is the last one: several losses are
  // trained on by their sum.
  void report_loss() {
    if (out_.ends.size() == 1 && state_.training) out_.result_tensor = out_.ends.front().tensor;
    if (out_.ends.size() < 2) return;
    graph().layer = kNone;
    ValueId sum = kNone;
    for (const LoweredGraph::End& end : out_.ends) {
      graph().value(end.value).keep = true;
      const ValueId rows = real_rows(out_.lowering, end.value);
      const ValueId one = ops::reduce_all(graph(), ir::ReduceKind::sum, rows);
      sum = sum == kNone ? one : ops::binary(graph(), ir::Scalar::add, sum, one);
    }
    out_.result_tensor = Tensor::create(TensorDescriptor({1}, graph().type(sum).data_type));
    out_.result_tensor->set_label("sum of losses");
    out_.tensors.emplace(out_.result_tensor.get(), sum);
  }

  // Losses, what is made of them, and what reads labels are left out.
  std::vector<NodeRecord> nodes_without_losses() const {
    std::set<const Tensor*> absent;
    for (const auto* group : {&state_.loss_labels, &state_.loss_label_weights}) {
      for (const auto& [name, tensor] : *group) {
        if (!state_.constants.contains(tensor)) absent.insert(tensor.get());
      }
    }
    std::vector<NodeRecord> kept;
    for (const NodeRecord& node : nodes_) {
      const bool reads_absent =
          std::any_of(node.sources.begin(), node.sources.end(),
                      [&](const TensorPtr& tensor) { return absent.contains(tensor.get()); });
      if (reads_absent || dynamic_cast<const Loss*>(node.layer.get()) != nullptr) {
        for (const TensorPtr& result : node.results) absent.insert(result.get());
      } else {
        kept.push_back(node);
      }
    }
    return kept;
  }

  void check_loss_layer() const {
    if (state_.loss_layer == nullptr) return;
    if (dynamic_cast<const Loss*>(state_.loss_layer.get()) != nullptr) return;
    throw InvalidArgument("[compile] expected a loss layer but got " +
                          state_.loss_layer->description());
  }

  // The layer given to the constructor compares what `predict` gives: the last layer's first
  // result. Losses of the graph's own stand beside it.
  void add_loss() {
    const std::vector<NodeRecord> scored = nodes_without_losses();
    if (scored.empty()) {
      throw InvalidArgument(
          "[compile] expected a layer before the loss but the graph has losses only");
    }
    const TensorPtr& prediction = scored.back().results.front();
    std::vector<TensorPtr> sources{prediction, state_.loss_labels.front().second};
    if (!state_.loss_label_weights.empty()) {
      sources.push_back(state_.loss_label_weights.front().second);
    }
    const std::vector<TensorPtr> results{state_.loss_result};
    emit(*state_.loss_layer, sources, &results);
    describe_loss(out_.tensors.at(state_.loss_result.get()));
  }

  // The loss tensor was made before its shape and type were known.
  void describe_loss(ValueId loss) {
    const ir::Type& type = graph().type(loss);
    TensorDescriptor descriptor(type.shape.empty() ? Shape{1} : type.shape, type.data_type);
    if (type.batched) descriptor.shape[0] = out_.lowering.declared_batch;
    TensorState& state = state_.loss_result->state();
    if (state.descriptor == descriptor) return;
    state.descriptor = std::move(descriptor);
    state.data = {};
  }

  // What linked graphs read of this one.
  std::vector<TensorPtr> exported() const {
    std::vector<TensorPtr> result;
    if (state_.links == nullptr) return result;
    for (const NodeRecord& node : nodes_) {
      for (const TensorPtr& tensor : node.results) {
        if (!state_.links->readers(state_, tensor.get(), false).empty()) result.push_back(tensor);
      }
    }
    return result;
  }

  // What stays readable until the next forward: results nobody reads, sources of losses, declared
  // outputs, and layers under debugging.
  void mark_readable() {
    std::set<const Tensor*> read;
    for (const NodeRecord& node : nodes_) {
      for (const TensorPtr& tensor : node.sources) read.insert(tensor.get());
    }
    auto keep = [&](const Tensor* tensor) {
      const auto found = out_.tensors.find(tensor);
      if (found != out_.tensors.end()) graph().value(found->second).keep = true;
    };
    for (const NodeRecord& node : nodes_) {
      const bool debug = node.layer->is_debugging_enabled() &&
                         has(state_.options, CompilationOptions::kDebugLayers);
      for (const TensorPtr& tensor : node.results) {
        if (debug || !read.contains(tensor.get())) keep(tensor.get());
      }
    }
    for (const Tensor* tensor : loss_sources_) keep(tensor);
    for (const auto& [name, tensor] : state_.outputs) {
      if (state_.differentiated(tensor.get()) != nullptr) continue;  // by add_training
      if (mode_ == Mode::prediction && !out_.tensors.contains(tensor.get())) continue;
      if (!out_.tensors.contains(tensor.get())) {
        throw InvalidArgument("[compile] output '" + name + "' is no tensor of this graph");
      }
      keep(tensor.get());
    }
    for (const GradientHandle& handle : state_.user_gradients) keep(handle.of.get());
    for (const TensorPtr& tensor : exported()) keep(tensor.get());
    keep(out_.result_tensor.get());
  }

  const GraphState& state_;
  const Mode mode_;
  std::vector<NodeRecord> nodes_;
  std::set<const Tensor*> tensor_parameters_;
  LoweredGraph out_;
  std::map<ValueId, ValueId> widened_;  // values of 16 bits as float32
  std::vector<const Tensor*> loss_sources_;
  std::map<TensorPtr, bool> means_;     // losses and what is made of them: all of them means?
  std::map<const Tensor*, Rows> rows_;  // of results
};

}  // namespace

bool lacks_labels(const GraphState& state) {
  for (const NodeRecord& node : state.ordered_nodes()) {
    if (dynamic_cast<const Loss*>(node.layer.get()) == nullptr || node.sources.size() < 2) continue;
    const TensorPtr& label = node.sources[1];
    const bool held = has_data(label->state()) || state.producer(label.get()) != nullptr;
    const bool declared = names(state.inputs, label.get()) || names(state.loss_labels, label.get());
    if (!held && !declared) return true;
  }
  return false;
}

std::int64_t declared_batch(const GraphState& state) {
  const bool has_samples = std::ranges::any_of(state.inputs, [&](const auto& input) {
    return !state.constants.contains(input.second) && input.second->descriptor().shape[0] != 1;
  });
  std::int64_t batch = 0;
  for (const auto* group : {&state.inputs, &state.loss_labels, &state.loss_label_weights}) {
    for (const auto& [name, tensor] : *group) {
      if (state.constants.contains(tensor)) continue;
      const std::int64_t extent = tensor->descriptor().shape[0];
      if (extent == 1 && has_samples && group == &state.inputs) continue;
      if (batch == 0) batch = extent;
      if (extent != batch) return 0;
    }
  }
  if (state.links == nullptr) return batch;
  for (const NodeRecord& node : state.ordered_nodes()) {
    for (const TensorPtr& tensor : node.sources) {
      if (!state.links->imports(state, tensor.get())) continue;
      if (!state.links->is_fed(tensor.get())) continue;
      const std::int64_t extent = tensor->descriptor().shape[0];
      if (batch == 0) batch = extent;
    }
  }
  return batch;
}

LoweredGraph lower(const GraphState& state, std::int64_t batch, Mode mode, bool fewer) {
  const std::int64_t declared = declared_batch(state);
  const bool is_other = batch != 0 && batch != declared;
  const auto refuse_fixed = [&](const LoweredGraph& lowered) {
    const std::string& layer = lowered.lowering.graph.fixed_batch;
    if (!is_other || layer.empty()) return;
    throw InvalidArgument("[execute] expected batch size " + std::to_string(declared) + ", which " +
                          layer + " fixes, but got " + std::to_string(batch));
  };
  try {
    LoweredGraph lowered = Writer(state, batch, mode, fewer).write();
    refuse_fixed(lowered);
    return lowered;
  } catch (const ShapeError&) {
    // Named is the layer that fixes the batch, not one behind it that its rows do not fit.
    if (is_other) refuse_fixed(Writer(state, declared, mode).write());
    throw;
  }
}

}  // namespace traingraph
