// Binds MLCGraph: nodes of layers, concatenation, reshape, transpose, indexing, summaries, and data
// bound by name.
#include <pybind11/stl.h>

#include "bindings.h"
#include "classes/signature.h"
#include "convert/convert.h"
#include "convert/names.h"

namespace traingraph::python {
namespace {

TensorPtr node(Graph& self, const Arguments& arguments) {
  const auto layer = arguments.get<LayerPtr>("layer");
  if (arguments.given("source")) {
    return self.node(layer, arguments.get<TensorPtr>("source"));
  }
  const auto sources = convert_list<TensorPtr>(arguments["sources"], arguments.where("sources"));
  if (arguments.given("loss_labels")) {
    return self.node(
        layer, sources,
        convert_list<TensorPtr>(arguments["loss_labels"], arguments.where("loss_labels")));
  }
  return self.node(layer, sources, arguments.get<bool>("disable_update"));
}

bool bind_and_write_tensors(Graph& self, const Arguments& arguments) {
  const NamedTensors tensors =
      named_tensors(arguments["for_inputs"], arguments.where("for_inputs"));
  NamedData data = named_data(arguments["data"], tensors, "MLCGraph.bind_and_write_data", "data",
                              "input", Access::kRead);
  if (!arguments["to"].is_none()) {
    const Device to = to_device(arguments["to"]);
    const std::optional<Device> device = self.device();
    if (device && !(*device == to)) {
      throw InvalidArgument(
          "[MLCGraph.bind_and_write_data] expected the device it was compiled "
          "for, " +
          device->description() + ", but got " + to.description());
    }
  }
  arguments.get<bool>("synchronous");
  const auto batch_size = arguments.get<std::int64_t>("batch_size");
  const ReleasedGil released;
  self.bind_and_write_data(data, tensors, batch_size);
  return true;
}

void bind_building(BoundClass<Graph, GraphPtr>& cls) {
  const std::string layer = "layer: MLCLayer, ";
  const std::string sources = "sources: Sequence[MLCTensor]";
  def_method(cls, "node", "MLCTensor",
             {layer + "source: MLCTensor", layer + sources + ", disable_update: bool = False",
              layer + sources + ", loss_labels: Sequence[MLCTensor]"},
             "Adds a layer over its sources and returns the first result. disable_update freezes "
             "the layer, its running statistics too. Errors: ValueError, "
             "TypeError naming the layer when it cannot take them.",
             node);
  def_call(cls, "concatenate", "MLCTensor", sources + ", dimension: int",
           "Joins tensors along one axis.", &Graph::concatenate);
  def_call(cls, "reshape", "MLCTensor", "shape: Sequence[int], source: MLCTensor",
           "The same elements under another shape.", &Graph::reshape);
  def_call(cls, "transpose", "MLCTensor", "dimensions: Sequence[int], source: MLCTensor",
           "Reorders the axes.", &Graph::transpose);
}

void bind_indexing_nodes(BoundClass<Graph, GraphPtr>& cls) {
  const std::string cut = "source: MLCTensor, ";
  def_method(
      cls, "split", "list[MLCTensor]",
      {cut + "split_count: int, dimension: int",
       cut + "split_section_lengths: Sequence[int], dimension: int"},
      "Cuts a tensor along one axis and returns the parts.",
      [](Graph& self, const Arguments& arguments) {
        const auto source = arguments.get<TensorPtr>("source");
        const auto dimension = arguments.get<std::int64_t>("dimension");
        return arguments.given("split_count")
                   ? self.split(source, arguments.get<std::int64_t>("split_count"), dimension)
                   : self.split(source, arguments.get<Shape>("split_section_lengths"), dimension);
      });
  const std::string indexed = "with_dimension: int, source: MLCTensor, indices: MLCTensor";
  def_call(cls, "gather", "MLCTensor", indexed, "Picks from the source by index along one axis.",
           &Graph::gather);
  def_method(cls, "scatter", "MLCTensor",
             {indexed + ", copy_from: MLCTensor, reduction_type: MLCReductionType | str"},
             "A copy of copy_from with the source's values written (NONE) or added (SUM) by index.",
             [](Graph& self, const Arguments& a) {
               const auto type = a.get_of<ReductionType>("reduction_type", R"("none", "sum")");
               return self.scatter(a.get<std::int64_t>("with_dimension"),
                                   a.get<TensorPtr>("source"), a.get<TensorPtr>("indices"),
                                   a.get<TensorPtr>("copy_from"), type);
             });
  def_call(cls, "select", "MLCTensor", "sources: Sequence[MLCTensor], condition: MLCTensor",
           "The first source where the condition holds, else the second.", &Graph::select);
}

}  // namespace

void bind_graph(py::module_& module) {
  auto cls =
      BoundClass<Graph, GraphPtr>(module, "MLCGraph", "Layers and the tensors between them.");
  def_init(cls, {""}, "An empty graph.",
           [](const Arguments&) { return std::make_shared<Graph>(); });
  bind_building(cls);
  bind_indexing_nodes(cls);
  cls.def_property_readonly("device", &Graph::device, "Where it was compiled for; None before.");
  cls.def_property_readonly("layers", &Graph::layers, "Each layer once, in order of first use.");
  cls.def_property_readonly("summarized_dot_description", &Graph::summarized_dot_description,
                            "The graph as a DOT digraph.");
  cls.def("summary", &Graph::summary, "A table of layers, result shapes and parameters.");
  def_call(cls, "source_tensors", "list[MLCTensor]", "layer: MLCLayer",
           "What the layer reads; empty for a layer of another graph.", &Graph::source_tensors);
  def_call(cls, "result_tensors", "list[MLCTensor]", "layer: MLCLayer",
           "What the layer gives; empty for a layer of another graph.", &Graph::result_tensors);
  def_method(cls, "bind_and_write_data", "bool",
             {"data: Mapping[str, ArrayLike | MLCTensorData], "
              "for_inputs: Mapping[str, "
              "MLCTensor], to: MLCDevice | str | None = None, batch_size: int = 0, synchronous: "
              "bool = True"},
             "Copies data for the separate passes: inputs before forward, gradients of the "
             "caller's own before the gradient.",
             bind_and_write_tensors);
  def_identity(cls);
  cls.def("__repr__", [](const py::object& self) {
    const auto& graph = py::cast<const Graph&>(self);
    const auto device = graph.device();
    return "<" + py::cast<std::string>(py::type::of(self).attr("__name__")) + " of " +
           std::to_string(graph.layers().size()) + " layers" +
           (device ? " on " + device->description() + ">" : ">");
  });
}

}  // namespace traingraph::python
