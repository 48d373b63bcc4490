// The public graphs: `Graph` holds layers and tensors, `TrainingGraph` and `InferenceGraph` compile
// and execute them, and `Execution` is the handle of one call.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <traingraph/device.h>
#include <traingraph/distributed.h>
#include <traingraph/export.h>
#include <traingraph/layer.h>
#include <traingraph/memory_plan.h>
#include <traingraph/optimizer.h>
#include <traingraph/profile.h>
#include <traingraph/tensor.h>

namespace traingraph {

struct GraphState;
struct ExecutionState;
struct Epoch;
struct Evaluation;
struct FitArguments;

// Tensors by the names they are fed and read under.
using NamedTensors = std::vector<std::pair<std::string, TensorPtr>>;
using NamedData = std::vector<std::pair<std::string, TensorData>>;
// Texts that a file has beside its tensors.
using Metadata = std::map<std::string, std::string>;

// (result, error, seconds). The result is null and the error is set after a failure. It is the
// graph's result tensor or, where the call has other rows than that, a tensor with those.
using CompletionHandler = std::function<void(TensorPtr, std::exception_ptr, double)>;

// One submitted execution. A value; copies name the same execution.
class TRAINGRAPH_API Execution {
 public:
  Execution() = default;
  explicit Execution(std::shared_ptr<ExecutionState> state);
  bool done() const;
  // Returns when the work is done; raises what it raised.
  void wait() const;
  // The loss of a training execute or forward, the last layer's first result of inference: a copy
  // with data type and shape. bytes is null for gradient and update. Waits.
  TensorData result() const;
  // Waits. 0 without the profiling option.
  double seconds() const;
  // Waits. Null without the per-layer profiling option.
  std::shared_ptr<const Profile> profile() const;
  // Calls f when the work is done, at once when it already is.
  void then(std::function<void()> f) const;

 private:
  std::shared_ptr<ExecutionState> state_;
};

struct GraphSummary {
  struct Row {
    std::int64_t id = 0;       // the layer's
    std::string layer = {};    // description and label
    std::string results = {};  // their shapes
    std::int64_t parameters = 0;
  };
  std::vector<Row> rows;
  std::int64_t parameters = 0;  // each tensor once
};

// Layers and the tensors between them.
class TRAINGRAPH_API Graph {
 public:
  Graph();
  virtual ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Adds a layer over sources and returns its first result. Raises ShapeError, InvalidArgument,
  // DataTypeError naming the layer when it cannot take them.
  TensorPtr node(const LayerPtr& layer, const TensorPtr& source);
  TensorPtr node(const LayerPtr& layer, const std::vector<TensorPtr>& sources,
                 bool disable_update = false);
  TensorPtr node(const LayerPtr& layer, const std::vector<TensorPtr>& sources,
                 const std::vector<TensorPtr>& loss_labels);
  TensorPtr concatenate(const std::vector<TensorPtr>& sources, std::int64_t dimension);
  TensorPtr reshape(Shape shape, const TensorPtr& source);
  TensorPtr transpose(std::vector<std::int64_t> dimensions, const TensorPtr& source);
  std::vector<TensorPtr> split(const TensorPtr& source, std::int64_t split_count,
                               std::int64_t dimension);
  std::vector<TensorPtr> split(const TensorPtr& source, Shape split_section_lengths,
                               std::int64_t dimension);
  TensorPtr gather(std::int64_t dimension, const TensorPtr& source, const TensorPtr& indices);
  TensorPtr scatter(std::int64_t dimension, const TensorPtr& source, const TensorPtr& indices,
                    const TensorPtr& copy_from, ReductionType reduction_type);
  // sources: x where the condition holds, y elsewhere.
  TensorPtr select(const std::vector<TensorPtr>& sources, const TensorPtr& condition);

  std::optional<Device> device() const;
  std::vector<LayerPtr> layers() const;
  std::vector<TensorPtr> source_tensors(const LayerPtr& layer) const;
  std::vector<TensorPtr> result_tensors(const LayerPtr& layer) const;
  // A table: layer, result shape, parameters.
  std::string summary() const;
  // What the table says: a row for each use of a layer.
  GraphSummary summarized() const;
  // The graph as a DOT digraph.
  std::string summarized_dot_description() const;

  // Writes inputs, labels or user gradients for the split calls; data is copied. Without
  // `synchronous` the bytes of a user gradient stay as they are until the next forward pass, and
  // the gradient pass may read them in place.
  void bind_and_write_data(const NamedData& data, const NamedTensors& tensors,
                           std::int64_t batch_size = 0, bool synchronous = true);

  GraphState& state() const { return *state_; }
  static const ClassDescription& class_description();

 protected:
  std::shared_ptr<GraphState> state_;
};

using GraphPtr = std::shared_ptr<Graph>;

// One call's data. Arrays that fit are used in place. A caller may give the same arguments again.
struct TRAINGRAPH_API ExecutionArguments {
  NamedData inputs = {};
  NamedData loss_labels = {};
  NamedData loss_label_weights = {};
  NamedData outputs = {};
  std::int64_t batch_size = 0;  // 0: from the tensors
  ExecutionOptions options = ExecutionOptions::kNone;
  CompletionHandler completion_handler = {};
};

// What training and inference graphs share: declaring, compiling, inspecting.
class TRAINGRAPH_API ExecutableGraph : public Graph {
 public:
  void add_inputs(const NamedTensors& inputs, const NamedTensors& loss_labels = {},
                  const NamedTensors& loss_label_weights = {});
  void add_outputs(const NamedTensors& outputs);
  // What was declared so far.
  const NamedTensors& inputs() const;
  const NamedTensors& loss_labels() const;
  const NamedTensors& loss_label_weights() const;
  const NamedTensors& outputs() const;
  // `constants` are tensors whose data stays as it is now (or as `data` says): what depends on them
  // alone is computed here, and they are not updated. The precision is this compile's, and that of
  // every program it leads to; float64 graphs know kFloat32, which is exact, alone. So is the
  // memory limit, which MemoryPlan::total_bytes is to keep to, in bytes: where it would be more,
  // the gradient pass computes values again instead of keeping them, to the same bits. Raises
  // OutOfMemory where that is not enough, or later where phases are run apart and need more.
  // `distributed`: all of these ranks compile the same training graph, and each execution of theirs
  // is one of the rows of all of them. The state becomes that of rank 0. Raises InvalidArgument on
  // all of them where one differs. `ranks`: how they train together.
  void compile(CompilationOptions options, const Device& device, const NamedTensors& constants = {},
               const NamedData& data = {}, Precision precision = Precision::kFloat32,
               std::optional<std::int64_t> memory_limit = std::nullopt,
               const std::optional<distributed::Communicator>& distributed = std::nullopt,
               const distributed::Options& ranks = {});
  // Of the last compile.
  Precision precision() const;
  std::optional<std::int64_t> memory_limit() const;
  // Joins graphs that share tensors: what one computes and another one reads passes over when
  // each is executed in turn, and gradients pass back. Needs kLinkGraphs; graphs already compiled
  // compile again at their next execution.
  void link(const std::vector<std::shared_ptr<ExecutableGraph>>& graphs);
  // What training changes and inference reads, by the names of checkpoints:
  // <position of the layer>.<label>.<parameter> or tensor.<label>; each tensor once.
  NamedTensors named_parameters() const;
  // Writes a checkpoint in the safetensors format, atomically: the parameters, and for a training
  // graph the optimizer's buffers, its time step, the random state, a step of micro-batches that
  // has begun, and where a fit stands that has not ended, all as they are after what was submitted
  // before. Raises FileError, InvalidArgument for metadata named format, version or optimizer.
  void save(const std::string& path, const Metadata& metadata = {}) const;
  // Takes a checkpoint of such a graph, after what was submitted before, and returns its metadata
  // without the library's. Raises FileError, or InvalidArgument that lists every difference, and
  // then changes nothing.
  Metadata load(const std::string& path);
  // What save writes and load reads, as arrays; without a fit.
  NamedData copy_state() const;
  void load_state(const NamedData& values);
  // Bytes of saved, gradient, transient and workspace memory; known after compile.
  std::size_t device_memory_size() const;
  MemoryPlan memory_plan() const;
  // The first result of the last layer that is no loss, for all samples on axis 0 of the inputs,
  // batch by batch; 0: of the tensors' size. What `before_batch` raises ends it.
  TensorData predict(const NamedData& inputs, std::int64_t batch_size = 0,
                     const std::function<void()>& before_batch = {});
  // The compiled program as text: ops, shapes, layouts, fusions.
  std::string compiled_description() const;
  // A place for the arguments of the last call, where a caller keeps them to give those that have
  // not changed again. Executions do not look at it.
  ExecutionArguments& last_arguments() { return last_arguments_; }
  static const ClassDescription& class_description();

 protected:
  ExecutableGraph(const std::vector<GraphPtr>& graphs, bool training);

 private:
  ExecutionArguments last_arguments_;
};

class TRAINGRAPH_API TrainingGraph final : public ExecutableGraph {
 public:
  TrainingGraph(const std::vector<GraphPtr>& graphs, LayerPtr loss_layer = nullptr,
                OptimizerPtr optimizer = nullptr);

  OptimizerPtr optimizer() const;
  void compile_optimizer(OptimizerPtr optimizer);
  void stop_gradient(const std::vector<TensorPtr>& tensors);
  // The handle of a tensor's gradient, the same at each call. Declared by add_outputs it is
  // computed and readable; gradients of plain inputs need kComputeAllGradients.
  TensorPtr gradient_tensor(const TensorPtr& input);
  // Gradients of what a layer reads and gives, in the order of source_tensors and result_tensors;
  // empty for a layer of another graph.
  std::vector<TensorPtr> source_gradient_tensors(const LayerPtr& layer);
  std::vector<TensorPtr> result_gradient_tensors(const LayerPtr& layer);
  // A slot for the gradient of a result that is consumed outside this graph; the same at each call.
  // What bind_and_write_data writes there between execute_forward and execute_gradient is added to
  // the gradient from inside. execute() then raises: such a graph runs by the separate calls.
  TensorPtr allocate_user_gradient(const TensorPtr& tensor);
  // What gradients are multiplied by on their way under kMixedFloat16, after what was submitted
  // before: 65536 at the start. Nothing under another precision.
  std::optional<double> loss_scale() const;
  void set_training_tensor_parameters(const std::vector<TensorParameter>& parameters);
  // Updates change the parameters of these layers alone. The others have no gradients; batch
  // normalizations among them still normalize by the batch, and move their running statistics.
  void train_only(const std::vector<LayerPtr>& layers);
  // From now on so many executions make one step: each adds its gradients to a sum, the last one
  // updates. Means of losses count a part each, so that equal micro-batches give what one large
  // batch gives, but for batch statistics. 1: every execution is a step.
  void set_micro_batches(int count);
  int micro_batches() const;

  // Forward, loss, gradient, then the update if there is an optimizer.
  Execution execute(const ExecutionArguments& arguments);
  Execution execute_forward(const ExecutionArguments& arguments);
  Execution execute_gradient(const ExecutionArguments& arguments);
  Execution execute_optimizer_update(const ExecutionArguments& arguments);
  // Trains over all samples batch by batch (fit.h); returns what each epoch gave. Errors in the
  // middle leave the updates made so far. Raises InvalidArgument where steps would change nothing.
  std::vector<Epoch> fit(const FitArguments& arguments);
  // Loss and accuracy over all samples, in inference mode.
  Evaluation evaluate(const FitArguments& arguments);
  // Copies updated parameters and running statistics to the tensors' host memory.
  void synchronize_updates();
  // Whether the graph, as it was compiled last, computes a gradient of a parameter of the layer.
  bool computes_gradient(const LayerPtr& layer) const;
  // The newest gradient of a layer's parameter, after a separate gradient call.
  TensorData gradient_data(const TensorPtr& parameter, const LayerPtr& layer) const;
  static const ClassDescription& class_description();
};

class TRAINGRAPH_API InferenceGraph final : public ExecutableGraph {
 public:
  explicit InferenceGraph(const std::vector<GraphPtr>& graphs);
  Execution execute(const ExecutionArguments& arguments);
  static const ClassDescription& class_description();
};

// Adds the layers one after another and returns the last one's first result.
TRAINGRAPH_API TensorPtr sequential(Graph& graph, TensorPtr x, const std::vector<LayerPtr>& layers);

}  // namespace traingraph
