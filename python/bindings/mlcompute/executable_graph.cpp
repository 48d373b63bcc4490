// Binds MLCTrainingGraph and MLCInferenceGraph: inputs and outputs, compilation, links, memory plan
// and training settings.
#include <pybind11/stl.h>

#include "bindings.h"
#include "classes/signature.h"
#include "convert/convert.h"
#include "convert/data.h"
#include "convert/names.h"
#include "execution/execution.h"
#include "mlcompute/checkpoint.h"
#include "mlcompute/fit.h"
#include "mlcompute/tensor_forms.h"

namespace traingraph::python {
namespace {

std::vector<GraphPtr> graphs_of(const Arguments& arguments) {
  return convert_list<GraphPtr>(arguments["graph_objects"], arguments.where("graph_objects"));
}

bool compile(ExecutableGraph& self, const Arguments& arguments) {
  const auto options = arguments.get<CompilationOptions>("options");
  const auto device = arguments.get<Device>("device");
  const auto precision = arguments.get<Precision>("precision");
  const auto memory_limit = arguments.optional<std::int64_t>("memory_limit");
  const NamedTensors constants =
      named_tensors(arguments["input_tensors"], arguments.where("input_tensors"));
  const NamedData data = named_data(arguments["input_tensors_data"], constants, "MLCGraph.compile",
                                    "input_tensors_data", "constant", Access::kRead);
  const ReleasedGil released;
  self.compile(options, device, constants, data, precision, memory_limit);
  return true;
}

// What training and inference graphs share.
template <typename Class>
void bind_shared(Class& cls) {
  const auto self_name = py::cast<std::string>(cls.attr("__name__"));
  def_call(cls, "add_inputs", "bool",
           "inputs: Mapping[str, MLCTensor], loss_labels: Mapping[str, MLCTensor] | None = None, "
           "loss_label_weights: Mapping[str, MLCTensor] | None = None",
           "Declares what every execution is fed, by name.", &ExecutableGraph::add_inputs);
  def_call(cls, "add_outputs", "bool", "outputs: Mapping[str, MLCTensor]",
           "Declares what executions write to outputs_data, by name.",
           &ExecutableGraph::add_outputs);
  def_method(
      cls, "compile", "bool",
      {"options: MLCGraphCompilationOptions | str = MLCGraphCompilationOptions.NONE, device: "
       "MLCDevice | str, input_tensors: Mapping[str, MLCTensor] | None = None, "
       "input_tensors_data: "
       "Mapping[str, ArrayLike | MLCTensorData] | None = None, "
       "precision: Precision | str = Precision.FLOAT32, memory_limit: int | None = None"},
      "Compiles for a device; input_tensors are constants: what depends on them alone is "
      "computed here, and later changes of their data count at the next compile. Types: "
      "float64 graphs take the precision FLOAT32, which is exact, alone. Where the memory plan "
      "comes to more than memory_limit, the gradient pass computes values again instead of keeping "
      "them, to the same bits. Units: bytes. Errors: NotImplementedError listing every layer that "
      "the device cannot run; MemoryError where the limit cannot be kept.",
      compile, Signature::Kind::kKeywordMethod);
  def_method(cls, "link", "bool", {"graphs: Sequence[" + self_name + "]"},
             "Joins graphs that share tensors: what one computes and another one reads passes over "
             "when they are executed in turn, and gradients pass back. Needs the option "
             "LINK_GRAPHS.",
             [](typename Class::type& self, const Arguments& arguments) {
               using Pointer = std::shared_ptr<typename Class::type>;
               std::vector<std::shared_ptr<ExecutableGraph>> graphs;
               for (const Pointer& graph :
                    convert_list<Pointer>(arguments["graphs"], arguments.where("graphs"))) {
                 graphs.push_back(graph);
               }
               const ReleasedGil released;
               self.link(graphs);
               return true;
             });
  def_method(cls, "predict", "numpy.ndarray",
             {"inputs: Mapping[str, ArrayLike] | "
              "ArrayLike, batch_size: int = 0"},
             "The last result that is no loss, for all samples on axis 0, batch by batch.",
             [](typename Class::type& self, const Arguments& arguments) {
               return predict(self, arguments);
             });
  def_checkpoint(cls);
  cls.def_property_readonly("precision", &ExecutableGraph::precision,
                            "What the last compile chose; FLOAT32 before it.");
  cls.def_property_readonly("memory_limit", &ExecutableGraph::memory_limit,
                            "What the last compile was given, or None. Units: bytes.");
  cls.def_property_readonly("device_memory_size", &ExecutableGraph::device_memory_size,
                            "Saved, gradient, transient and workspace memory. Units: bytes.");
  cls.def("memory_plan", &ExecutableGraph::memory_plan,
          "What the compiled graph keeps in device memory.");
  cls.def("compiled_description", &ExecutableGraph::compiled_description,
          "The compiled program as text: operations, shapes, layouts, fusions.");
}

void bind_training(py::module_& module) {
  using Self = TrainingGraph;
  auto cls = BoundClass<Self, ExecutableGraph, std::shared_ptr<Self>>(
      module, "MLCTrainingGraph", "Runs forward, gradient and update over graphs.");
  def_init(cls,
           {"graph_objects: Sequence[MLCGraph], loss_layer: MLCLayer | None = "
            "None, optimizer: MLCOptimizer | None = None"},
           "Without a loss the gradient starts from what the caller supplies; without an optimizer "
           "nothing is updated.",
           [](const Arguments& arguments) {
             return std::make_shared<Self>(graphs_of(arguments),
                                           arguments.nullable<LayerPtr>("loss_layer"),
                                           arguments.nullable<OptimizerPtr>("optimizer"));
           });
  bind_shared(cls);
  def_training_execution(cls);
  def_fit(cls);
  cls.def_property_readonly("optimizer", &Self::optimizer, "The optimizer, or None.");
  def_call(cls, "compile_optimizer", "bool", "optimizer: MLCOptimizer", "Attaches an optimizer.",
           &Self::compile_optimizer);
  def_call(cls, "stop_gradient", "bool", "tensors: Sequence[MLCTensor]",
           "Lets no gradient through these tensors.", &Self::stop_gradient);
  def_call(cls, "set_training_tensor_parameters", "bool",
           "parameters: Sequence[MLCTensorParameter]",
           "Lets updates change these input tensors too.", &Self::set_training_tensor_parameters);
  def_call(cls, "gradient_tensor", "MLCTensor", "for_input: MLCTensor",
           "The handle of a tensor's gradient, the same at each call. Gradients of plain inputs "
           "are computed with the option COMPUTE_ALL_GRADIENTS, those of other tensors when "
           "add_outputs declares them. Errors: ValueError for a tensor of another graph.",
           &Self::gradient_tensor, Gil::kReleased);
  def_call(cls, "source_gradient_tensors", "list[MLCTensor]", "layer: MLCLayer",
           "The gradients of what a layer reads; empty for a layer of another graph.",
           &Self::source_gradient_tensors, Gil::kReleased);
  def_call(cls, "result_gradient_tensors", "list[MLCTensor]", "layer: MLCLayer",
           "The gradients of what a layer gives; empty for a layer of another graph.",
           &Self::result_gradient_tensors, Gil::kReleased);
  def_call(cls, "allocate_user_gradient", "MLCTensor", "tensor: MLCTensor",
           "A slot for the gradient of a result that is consumed outside the graph, the same at "
           "each call. What bind_and_write_data writes there between execute_forward and "
           "execute_gradient is added to the gradient from inside; execute then raises. Shapes: "
           "the tensor's. Errors: ValueError for a tensor that no layer computes.",
           &Self::allocate_user_gradient);
  cls.def_property("micro_batches", &Self::micro_batches, &Self::set_micro_batches,
                   "How many executions make one step: each adds its gradients to a sum, the last "
                   "one updates. Means of losses count a part each. 1 at the start.");
  cls.def_property_readonly(
      "loss_scale",
      [](const Self& self) {
        const ReleasedGil released;
        return self.loss_scale();
      },
      "What gradients are multiplied by on their way under MIXED_FLOAT16: halved by a step whose "
      "gradients overflow, which is skipped, and doubled after 2000 others. None under another "
      "precision.");
  def_method(cls, "bind_optimizer_data", "bool",
             {"data: Sequence[ArrayLike | MLCTensorData], "
              "device_data: Sequence[MLCTensorOptimizerDeviceData] | None = None, "
              "tensor: MLCTensor"},
             "Replaces what the optimizer keeps for a parameter.",
             [](Self&, const Arguments& arguments) {
               bind_optimizer_data(*arguments.get<TensorPtr>("tensor"), arguments);
               return true;
             });
  def_method(cls, "gradient_data", "numpy.ndarray | None",
             {"for_parameter: MLCTensor, layer: MLCLayer"},
             "The newest gradient of a layer's parameter, after a separate gradient call.",
             [](Self& self, const Arguments& arguments) {
               const auto parameter = arguments.get<TensorPtr>("for_parameter");
               const auto layer = arguments.get<LayerPtr>("layer");
               TensorData data;
               {
                 const ReleasedGil released;
                 data = self.gradient_data(parameter, layer);
               }
               return view_of(data, true);
             });
  cls.def_released("synchronize_updates", &Self::synchronize_updates,
                   "Copies updated parameters and running statistics to the tensors' host memory.");
}

void bind_inference(py::module_& module) {
  using Self = InferenceGraph;
  auto cls = BoundClass<Self, ExecutableGraph, std::shared_ptr<Self>>(
      module, "MLCInferenceGraph", "Runs the forward pass of graphs.");
  def_init(cls, {"graph_objects: Sequence[MLCGraph]"},
           "Shares its parameters with training graphs over the same graphs.",
           [](const Arguments& arguments) { return std::make_shared<Self>(graphs_of(arguments)); });
  bind_shared(cls);
  def_inference_execution(cls);
}

}  // namespace

void bind_executable_graphs(py::module_& module) {
  BoundClass<ExecutableGraph, Graph, std::shared_ptr<ExecutableGraph>>(
      module, "ExecutableGraph", "What training and inference graphs share.");
  bind_training(module);
  bind_inference(module);
}

}  // namespace traingraph::python
