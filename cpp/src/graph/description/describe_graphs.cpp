// Graphs of layers, and those that train and infer.
#include <traingraph/describe.h>
#include <traingraph/errors.h>
#include <traingraph/graph.h>

#include "graph/description/tensor_forms.h"

namespace traingraph {
namespace {

using Tensors = std::vector<TensorPtr>;
using Graphs = std::vector<GraphPtr>;
using MaybeTensors = std::optional<NamedTensors>;

std::string shown(const Graph& self) {
  const std::optional<Device> device = self.device();
  return "of " + std::to_string(self.layers().size()) + " layers" +
         (device ? " on " + device->description() : "");
}

// --- nodes ---------------------------------------------------------------------------------------

TensorPtr add_node(Graph& self, const Given& given) {
  const auto layer = given.get<LayerPtr>("layer");
  if (given.find("source") != nullptr) return self.node(layer, given.get<TensorPtr>("source"));
  const auto sources = given.get<Tensors>("sources");
  if (given.find("loss_labels") != nullptr) {
    return self.node(layer, sources, given.get<Tensors>("loss_labels"));
  }
  return self.node(layer, sources, given.get<bool>("disable_update"));
}

void describe_nodes(Describing<Graph, Graph>& graph) {
  const auto layer = argument<LayerPtr>("layer", "The layer, which belongs to the graph then.");
  const auto source = argument<TensorPtr>("source", "The tensor that the layer reads.");
  const auto sources = argument<Tensors>("sources", "The source tensors, in the layer's order.");
  const auto frozen = argument("disable_update", false, "Whether its parameters stay as they are.");
  const auto labels = argument<Tensors>("loss_labels", "The labels of a loss layer.");
  graph
      .function_of_forms("node",
                         "Adds a layer over its sources and returns the first result. "
                         "disable_update freezes the layer, its running statistics too. Errors: "
                         "ValueError, TypeError naming the layer when it cannot take them.",
                         {{layer, source}, {layer, sources, frozen}, {layer, sources, labels}},
                         add_node)
      .function("concatenate", &Graph::concatenate, "Joins tensors along one axis.",
                {{"sources", "In the order of the result."}, {"dimension", "The axis."}})
      .function("reshape", &Graph::reshape, "The same elements under another shape.",
                {{"shape", "Extents; one may be -1."}, {"source", "The tensor to reshape."}})
      .function("transpose", &Graph::transpose, "Reorders the axes.",
                {{"dimensions", "The source's axes in the order of the result."},
                 {"source", "The source tensor."}});
}

void describe_indexing(Describing<Graph, Graph>& graph) {
  const auto source = argument<TensorPtr>("source", "The tensor that the layer reads.");
  const auto dimension = argument<std::int64_t>("dimension", "The axis.");
  const auto along = argument<std::int64_t>("with_dimension", "The axis that is indexed.");
  const auto indices = argument<TensorPtr>("indices", "Whole numbers from 0 on.");
  const auto copy_from =
      argument<TensorPtr>("copy_from", "The tensor of the elements that nothing is written to.");
  auto reduction = argument<ReductionType>("reduction_type", "NONE writes, SUM adds.");
  reduction.accepted = R"("none", "sum")";
  graph
      .function_of_forms(
          "split", "Cuts a tensor along one axis and returns the parts.",
          {{source, argument<std::int64_t>("split_count", "Into so many equal parts."), dimension},
           {source, argument<Shape>("split_section_lengths", "The extent of each part."),
            dimension}},
          [](Graph& self, const Given& given) {
            const auto whole = given.get<TensorPtr>("source");
            const auto axis = given.get<std::int64_t>("dimension");
            return given.find("split_count") != nullptr
                       ? self.split(whole, given.get<std::int64_t>("split_count"), axis)
                       : self.split(whole, given.get<Shape>("split_section_lengths"), axis);
          })
      .function("gather", &Graph::gather, "Picks from the source by index along one axis.",
                {{"with_dimension", "The axis that is indexed."},
                 {"source", "The tensor that the layer reads."},
                 {"indices", "Whole numbers from 0 on."}})
      .function_of_forms(
          "scatter",
          "A copy of copy_from with the source's values written (NONE) or added (SUM) by index.",
          {{along, source, indices, copy_from, reduction}},
          [](Graph& self, const Given& given) {
            return self.scatter(given.get<std::int64_t>("with_dimension"),
                                given.get<TensorPtr>("source"), given.get<TensorPtr>("indices"),
                                given.get<TensorPtr>("copy_from"),
                                given.get<ReductionType>("reduction_type"));
          })
      .function("select", &Graph::select,
                "The first source where the condition holds, else the second.",
                {{"sources", "Two: where the condition holds, and where it does not."},
                 {"condition", "Boolean; the three broadcast."}});
}

void bind_and_write_data(Graph& self, const NamedDataToRead& data, const NamedTensors& tensors,
                         const std::optional<Device>& to, std::int64_t batch_size,
                         bool synchronous) {
  const NamedData read = data.read(tensors, "input");
  const std::optional<Device> device = self.device();
  if (device && to && !(*device == *to)) {
    throw InvalidArgument(
        "[MLCGraph.bind_and_write_data] expected the device it was compiled for, " +
        device->description() + ", but got " + to->description());
  }
  self.bind_and_write_data(read, tensors, batch_size, synchronous);
}

// --- what training and inference graphs share ----------------------------------------------------

void add_inputs(ExecutableGraph& self, const NamedTensors& inputs, const MaybeTensors& labels,
                const MaybeTensors& weights) {
  self.add_inputs(inputs, labels.value_or(NamedTensors()), weights.value_or(NamedTensors()));
}

void compile(ExecutableGraph& self, CompilationOptions options, const Device& device,
             const MaybeTensors& tensors, const std::optional<NamedDataToRead>& data,
             Precision precision, std::optional<std::int64_t> memory_limit,
             const std::optional<distributed::Communicator>& distributed,
             bool synchronized_batch_norm, bool shard_optimizer,
             std::optional<DataType> gradient_exchange) {
  const NamedTensors constants = tensors.value_or(NamedTensors());
  self.compile(options, device, constants, data ? data->read(constants, "constant") : NamedData(),
               precision, memory_limit, distributed,
               {.synchronized_batch_norm = synchronized_batch_norm,
                .shard_optimizer = shard_optimizer,
                .gradient_exchange = gradient_exchange});
}

template <class T>
void link(T& self, const std::vector<std::shared_ptr<T>>& graphs) {
  self.link(std::vector<std::shared_ptr<ExecutableGraph>>(graphs.begin(), graphs.end()));
}

template <class T>
void describe_checkpoints(Describing<T, Graph, ExecutableGraph>& graph) {
  graph
      .function("named_parameters", &ExecutableGraph::named_parameters,
                "Weights, biases, running statistics and trained inputs by their names in "
                "checkpoints.")
      .function(
          "save",
          [](const T& self, const FilePath& path, const std::optional<Metadata>& metadata) {
            self.save(path.bytes, metadata.value_or(Metadata()));
          },
          "Writes a checkpoint in the safetensors format, atomically and after what was submitted "
          "before; also where a fit stands that has not ended. Errors: OSError with errno and "
          "filename; ValueError for a path with a NUL, or metadata with a name of the library's.",
          {{"path", "The file, which is replaced."},
           {"metadata", "Texts by name, which load() returns.", std::any()}})
      .may_wait()
      .function(
          "load", [](T& self, const FilePath& path) { return self.load(path.bytes); },
          "Takes a checkpoint of such a graph, after what was submitted before, and returns its "
          "metadata. Errors: OSError; ValueError that lists every difference, and then nothing has "
          "changed.",
          {{"path", "A file that save() wrote."}})
      .may_wait()
      .function("state", &ExecutableGraph::copy_state, "Copies of what save() writes, by name.")
      .may_wait()
      .function(
          "load_state",
          [](T& self, const StateToRead& values) {
            self.load_state(values.read([&self] { return self.copy_state(); }));
          },
          "Takes what state() gives, or the parameters alone; the checks are those of load(). "
          "Types: exactly the tensors' own, but floats of 16 bits widen to float32; lists of "
          "numbers "
          "take them. Errors: ValueError, TypeError.",
          {{"values", "Arrays by name."}})
      .may_wait();
}

template <class T>
void describe_shared(Describing<T, Graph, ExecutableGraph>& graph) {
  graph
      .action("add_inputs", add_inputs, "Declares what every execution is fed, by name.",
              {{"inputs", "Input tensors by name."},
               {"loss_labels", "Labels of the loss by name.", std::any()},
               {"loss_label_weights", "Weights of the samples in the loss by name.", std::any()}})
      .action("add_outputs", &ExecutableGraph::add_outputs,
              "Declares what executions write to outputs_data, by name.",
              {{"outputs", "Tensors of these graphs."}})
      .action(
          "compile", compile,
          "Compiles for a device; input_tensors are constants: what depends on them alone is "
          "computed here, and later changes of their data count at the next compile. Types: "
          "float64 graphs take the precision FLOAT32, which is exact, alone. Where the memory "
          "plan comes to more than memory_limit, the gradient pass computes values again "
          "instead of keeping them, to the same bits. With distributed, all ranks of it compile "
          "the same training graph and train it as one; the state becomes that of rank 0. "
          "Units: bytes. Errors: ValueError on all ranks, with both values, where one differs; "
          "NotImplementedError listing every layer that the device cannot run; MemoryError "
          "where the limit cannot be kept.",
          {{"options", "Members joined by |: links, debugging, all gradients.",
            CompilationOptions::kNone},
           {"device", "The device that runs it."},
           {"input_tensors", "Constants by name.", std::any()},
           {"input_tensors_data", "Their data by the same names; None: the tensors' own.",
            std::any()},
           {"precision", "The precision of products and activations.", Precision::kFloat32},
           {"memory_limit", "In bytes; None: no limit.", std::any()},
           {"distributed", "The ranks that train it together; None: one alone.", std::any()},
           {"synchronized_batch_norm",
            "Whether batch normalization takes mean and variance over the rows of all ranks.",
            false},
           {"shard_optimizer",
            "Whether each rank keeps a part of the optimizer's buffers, and updates that of the "
            "parameters.",
            false},
           {"gradient_exchange",
            "What gradients travel between ranks as: BFLOAT16; None: as what they are.",
            std::any()}})
      .may_wait()
      .action("link", link<T>,
              "Joins graphs that share tensors: what one computes and another one reads passes "
              "over when they are executed in turn, and gradients pass back. Needs the option "
              "LINK_GRAPHS.",
              {{"graphs", "The other graphs."}})
      .may_wait();
  describe_checkpoints(graph);
  graph
      .property("precision", &ExecutableGraph::precision,
                "The precision of the last compile; FLOAT32 before it.")
      .property("memory_limit", &ExecutableGraph::memory_limit,
                "The memory limit of the last compile, or None. Units: bytes.")
      .property("device_memory_size", &ExecutableGraph::device_memory_size,
                "Saved, gradient, transient and workspace memory. Units: bytes.")
      .function("memory_plan", &ExecutableGraph::memory_plan,
                "The device memory of the compiled graph.")
      .function("compiled_description", &ExecutableGraph::compiled_description,
                "The compiled program as text: operations, shapes, layouts, fusions.");
}

Argument graph_objects() {
  return argument<Graphs>("graph_objects",
                          "The graphs of layers to execute; they may share tensors.");
}

// --- training ------------------------------------------------------------------------------------

using Training = Describing<TrainingGraph, Graph, ExecutableGraph>;

void describe_gradients(Training& graph) {
  constexpr const char* kLayer = "A layer of these graphs.";
  graph
      .action("stop_gradient", &TrainingGraph::stop_gradient,
              "Lets no gradient through these tensors.", {{"tensors", "Tensors of these graphs."}})
      .function("gradient_tensor", &TrainingGraph::gradient_tensor,
                "The handle of a tensor's gradient, the same at each call. Gradients of plain "
                "inputs are computed with the option COMPUTE_ALL_GRADIENTS, those of other tensors "
                "when add_outputs declares them. Errors: ValueError for a tensor of another graph.",
                {{"for_input", "A tensor of these graphs."}})
      .may_wait()
      .function("source_gradient_tensors", &TrainingGraph::source_gradient_tensors,
                "The gradients of what a layer reads; empty for a layer of another graph.",
                {{"layer", kLayer}})
      .may_wait()
      .function("result_gradient_tensors", &TrainingGraph::result_gradient_tensors,
                "The gradients of what a layer gives; empty for a layer of another graph.",
                {{"layer", kLayer}})
      .may_wait()
      .function("allocate_user_gradient", &TrainingGraph::allocate_user_gradient,
                "A slot for the gradient of a result that is consumed outside the graph, the same "
                "at each call. What bind_and_write_data writes there between execute_forward and "
                "execute_gradient is added to the gradient from inside; execute then raises. "
                "Shapes: the tensor's. Errors: ValueError for a tensor that no layer computes.",
                {{"tensor", "A result of these graphs."}})
      .function("gradient_data",
                [](const TrainingGraph& self, const TensorPtr& parameter,
                   const LayerPtr& layer) -> std::optional<HostArray> {
                  TensorData data = self.gradient_data(parameter, layer);
                  if (data.bytes == nullptr) return std::nullopt;
                  return HostArray{std::move(data)};
                },
                "The newest gradient of a layer's parameter, after a separate gradient call.",
                {{"for_parameter", "The parameter's tensor."}, {"layer", "The layer that has it."}})
      .may_wait();
}

void describe_updates(Training& graph) {
  graph.optional_property("optimizer", &TrainingGraph::optimizer, "The optimizer, or None.")
      .action("compile_optimizer", &TrainingGraph::compile_optimizer, "Attaches an optimizer.",
              {{"optimizer", "The optimizer that updates parameters."}})
      .action("set_training_tensor_parameters", &TrainingGraph::set_training_tensor_parameters,
              "Lets updates change these input tensors too.",
              {{"parameters", "The parameters of input tensors."}})
      .action("train_only", &TrainingGraph::train_only,
              "Lets updates change the parameters of these layers alone, which says nothing of "
              "other graphs over them. Batch normalizations among the other layers still normalize "
              "by the batch, and move their running statistics. Errors: ValueError for a layer of "
              "another graph, or without any parameters.",
              {{"layers", "Layers of these graphs."}})
      .settable("micro_batches", &TrainingGraph::micro_batches, &TrainingGraph::set_micro_batches,
                "How many executions make one step: each adds its gradients to a sum, the last one "
                "updates. Means of losses count a part each. 1 at the start.")
      .property("loss_scale", &TrainingGraph::loss_scale,
                "What gradients are multiplied by on their way under MIXED_FLOAT16: halved by a "
                "step whose gradients overflow, which is skipped, and doubled after 2000 others. "
                "None under another precision.")
      .may_wait()
      .action("bind_optimizer_data",
              [](TrainingGraph&, const DataList& data, const std::optional<Twins>& twins,
                 const TensorPtr& tensor) { bind_optimizer_data(*tensor, data, twins); },
              "Replaces what the optimizer keeps for a parameter.",
              {{"data", "One array per buffer."},
               {"device_data", "As many as data, which they follow by themselves.", std::any()},
               {"tensor", "The parameter's tensor."}})
      .may_wait()
      .function("synchronize_updates", &TrainingGraph::synchronize_updates,
                "Copies updated parameters and running statistics to the tensors' host memory.")
      .may_wait();
}

}  // namespace

const ClassDescription& Graph::class_description() {
  static const ClassDescription description = [] {
    Describing<Graph, Graph> graph("MLCGraph", "Layers and the tensors between them.");
    graph.made_of<>("An empty graph.");
    describe_nodes(graph);
    describe_indexing(graph);
    constexpr const char* kLayer = "A layer of the graph.";
    return graph
        .property("device", &Graph::device, "The device of the last compile; None before it.")
        .property("layers", &Graph::layers, "Each layer once, in order of first use.")
        .property("summarized_dot_description", &Graph::summarized_dot_description,
                  "The graph as a DOT digraph.")
        .function("source_tensors", &Graph::source_tensors,
                  "The sources of a layer; empty for a layer of another graph.",
                  {{"layer", kLayer}})
        .function("result_tensors", &Graph::result_tensors,
                  "The results of a layer; empty for a layer of another graph.",
                  {{"layer", kLayer}})
        .action("bind_and_write_data", traingraph::bind_and_write_data,
                "Copies data for the separate passes: inputs before forward, gradients of the "
                "caller's own before the gradient.",
                {{"data", "Arrays by name."},
                 {"for_inputs", "Tensors by the same names."},
                 {"to", "The device that it was compiled for.", std::any()},
                 {"batch_size", "0: as the tensors have it.", std::int64_t{0}},
                 {"synchronous",
                  "False: gradients of the caller's own stay as they are until the next forward, "
                  "and may be read in place.",
                  true}})
        .may_wait()
        .compared_by_identity()
        .repr(shown);
  }();
  return description;
}

const ClassDescription& ExecutableGraph::class_description() {
  static const ClassDescription description = Describing<ExecutableGraph, Graph>(
      "ExecutableGraph", "The base of training and inference graphs.");
  return description;
}

const ClassDescription& TrainingGraph::class_description() {
  static const ClassDescription description = [] {
    Training graph("MLCTrainingGraph", "Runs forward, gradient and update over graphs.");
    graph
        .text(
            "Without a loss the gradient starts from what the caller supplies; without an "
            "optimizer nothing is updated.")
        .form({graph_objects(),
               optional_argument<LayerPtr>(
                   "loss_layer",
                   "The layer that computes the loss of the last layer's first result."),
               optional_argument<OptimizerPtr>("optimizer",
                                               "The optimizer that updates parameters.")},
              [](const Given& given) {
                return std::make_shared<TrainingGraph>(given.get<Graphs>("graph_objects"),
                                                       given.get<LayerPtr>("loss_layer"),
                                                       given.get<OptimizerPtr>("optimizer"));
              });
    describe_shared(graph);
    describe_gradients(graph);
    describe_updates(graph);
    return graph;
  }();
  return description;
}

const ClassDescription& InferenceGraph::class_description() {
  static const ClassDescription description = [] {
    Describing<InferenceGraph, Graph, ExecutableGraph> graph("MLCInferenceGraph",
                                                             "Runs the forward pass of graphs.");
    graph.text("Shares its parameters with training graphs over the same graphs.")
        .form({graph_objects()}, [](const Given& given) {
          return std::make_shared<InferenceGraph>(given.get<Graphs>("graph_objects"));
        });
    describe_shared(graph);
    return graph;
  }();
  return description;
}

}  // namespace traingraph
