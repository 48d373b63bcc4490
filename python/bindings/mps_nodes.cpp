#include "mps_bindings.h"
#include "mps_encoding.h"
#include "mps_node_bindings.h"
#include "release.h"

namespace traingraph::python {
namespace {

using mps::NNFilterNode;
using mps::NNFilterNodePtr;
using mps::NNImageNode;
using mps::NNImageNodePtr;
using mps::NNStateNode;

// Text, or any object with label().
mps::HandlePtr to_handle(const py::object& value) {
  if (value.is_none()) return nullptr;
  mps::Handle handle;
  if (py::isinstance<py::str>(value)) {
    handle.label = to_text(value, {"MPSNNImageNode", "handle", "str"});
  } else if (py::hasattr(value, "label")) {
    const py::object label = value.attr("label");
    const py::object text = PyCallable_Check(label.ptr()) != 0 ? label() : label;
    if (!text.is_none())
      handle.label = to_text(py::str(text), {"MPSNNImageNode", "handle's label", "str"});
  } else {
    refuse({"MPSNNImageNode", "handle", "str, an object with label(), or None"}, value);
  }
  handle.object = share(value);
  return std::make_shared<mps::Handle>(std::move(handle));
}

template <typename Class>
void def_handle(Class& cls) {
  using Self = typename Class::type;
  cls.def_property(
      "handle", [](const Self& self) { return from_handle(self.handle); },
      [](Self& self, const py::object& value) { self.handle = to_handle(value); },
      "What the program knows it by: text, or an object with label().");
  cls.def_readwrite("export_from_graph", &Self::export_from_graph,
                    "Whether an encoding hands it out.");
}

void bind_image_nodes(py::module_& module) {
  auto cls = BoundClass<NNImageNode, NNImageNodePtr>(
      module, "MPSNNImageNode", "A place of an image: a graph's source, or what a node makes.");
  def_init(cls, {"handle: typing.Any = None"}, "A source of a graph.", [](const Arguments& a) {
    return std::make_shared<NNImageNode>(to_handle(a["handle"]));
  });
  def_factory(cls, "exported_node", "MPSNNImageNode", {"with_handle: typing.Any"},
              "One that an encoding hands out.", [](const Arguments& a) {
                auto node = std::make_shared<NNImageNode>(to_handle(a["with_handle"]));
                node->export_from_graph = true;
                return node;
              });
  def_handle(cls);
  cls.def_property(
      "format", [](const NNImageNode& self) { return self.format; },
      [](NNImageNode& self, mps::ChannelFormat value) { self.format = value; },
      "What its elements are; NONE: as the graph says.");
  cls.def_readwrite("stop_gradient", &NNImageNode::stop_gradient,
                    "Whether a training graph ends here.");
  cls.def_readwrite("makes_temporary_images", &NNImageNode::makes_temporary_images,
                    "Whether what is exported is temporary, as at the beginning; an addition of "
                    "traingraph in place of image_allocator.");
  cls.def_property_readonly(
      "_producer",
      [](const NNImageNode& self) {
        return py::cast(self.producer() == nullptr ? nullptr : self.producer()->shared_from_this());
      },
      "The node that makes it, or None.");
  cls.def("__repr__",
          [](const NNImageNode& self) { return "<MPSNNImageNode: " + self.description() + ">"; });
}

void bind_state_nodes(py::module_& module) {
  auto cls = BoundClass<NNStateNode, mps::NNStateNodePtr>(
      module, "MPSNNStateNode", "A place of states, one per image or one for all.");
  def_handle(cls);
  cls.def_property_readonly(
      "_owner", [](const NNStateNode& self) { return py::cast(self.owner()->shared_from_this()); },
      "The node that makes it, or reads it from outside.");
  using Gradient = mps::NNGradientStateNode;
  BoundClass<Gradient, NNStateNode, std::shared_ptr<Gradient>>(
      module, "MPSNNGradientStateNode", "What a gradient node needs to know of the forward one.");
  using Convolution = mps::CNNConvolutionGradientStateNode;
  BoundClass<Convolution, Gradient, std::shared_ptr<Convolution>>(
      module, "MPSCNNConvolutionGradientStateNode", "The same of a convolution.");
  using Transpose = mps::CNNConvolutionTransposeGradientStateNode;
  BoundClass<Transpose, Convolution, std::shared_ptr<Transpose>>(
      module, "MPSCNNConvolutionTransposeGradientStateNode", "The same of a transposed one.");
  using Binary = mps::NNBinaryGradientStateNode;
  BoundClass<Binary, NNStateNode, std::shared_ptr<Binary>>(module, "MPSNNBinaryGradientStateNode",
                                                           "The same of a node with two sources.");
  using Arithmetic = mps::NNArithmeticGradientStateNode;
  BoundClass<Arithmetic, Binary, std::shared_ptr<Arithmetic>>(
      module, "MPSNNArithmeticGradientStateNode", "The same of arithmetic.");
  using Labels = mps::NNLabelsNode;
  BoundClass<Labels, NNStateNode, std::shared_ptr<Labels>>(module, "MPSNNLabelsNode",
                                                           "The labels of a loss.");
}

mps::NNGradientHandler gradient_handler(const Arguments& arguments) {
  const py::object handler = arguments["node_handler"];
  if (handler.is_none()) return nullptr;
  if (PyCallable_Check(handler.ptr()) == 0) refuse(arguments.where("node_handler"), handler);
  return [handler](const NNFilterNodePtr& gradient, const NNFilterNodePtr& inference,
                   const NNImageNodePtr& inference_source, const NNImageNodePtr& gradient_source) {
    handler(gradient, inference, inference_source, gradient_source);
  };
}

void bind_filter(py::module_& module) {
  auto cls = BoundClass<NNFilterNode, NNFilterNodePtr>(
      module, "MPSNNFilterNode", "Images and states in, one image and perhaps a state out.");
  cls.def_property_readonly("result_image", &NNFilterNode::result_image, "What it makes.");
  cls.def_property_readonly("result_state", &NNFilterNode::result_state,
                            "What its gradient node needs, or None.");
  cls.def_property_readonly("result_states", &NNFilterNode::result_states,
                            "As a list: a concatenation has one for each source.");
  cls.def_readwrite("label", &NNFilterNode::label, "A name for messages.");
  cls.def_property(
      "padding_policy",
      [](const NNFilterNode& self) {
        return enum_member("MPSNNPaddingMethod", self.padding_method());
      },
      [](NNFilterNode& self, const py::object& value) {
        self.set_padding_method(padding_method(value));
      },
      "How the result's size follows from the source's.");
  cls.def_property_readonly("_sources", &NNFilterNode::sources, "What it reads.");
  cls.def_property_readonly("_source_states", &NNFilterNode::source_states, "What it reads.");
  cls.def_property_readonly(
      "_made_of",
      [](const NNFilterNode& self) -> py::object {
        if (self.made_of == nullptr) return py::none();
        return shared_object(self.made_of);
      },
      "The arguments of its constructor, or None for a node that the library made.");
  const std::vector<std::string> forms = {"with_source: MPSNNImageNode",
                                          "with_sources: list[MPSNNImageNode]"};
  def_method(cls, "gradient_filter", "MPSNNGradientFilterNode", forms,
             "The node that makes the gradient of the source, given that of the result; of a loss "
             "that by the predictions. Errors: a node without a gradient, or with several sources.",
             [](NNFilterNode& self, const Arguments& a) {
               if (a.given("with_source"))
                 return self.gradient_filter(a.get<NNImageNodePtr>("with_source"));
               return self.gradient_filter(a.get<std::vector<NNImageNodePtr>>("with_sources"));
             });
  def_method(cls, "gradient_filters", "list[MPSNNGradientFilterNode]", forms,
             "One node for each source, in their order. Errors: a node without a gradient.",
             [](NNFilterNode& self, const Arguments& a) {
               if (a.given("with_source"))
                 return self.gradient_filters(a.get<NNImageNodePtr>("with_source"));
               return self.gradient_filters(a.get<std::vector<NNImageNodePtr>>("with_sources"));
             });
  def_method(cls, "training_graph", "list[MPSNNFilterNode]",
             {"with_source_gradient: MPSNNImageNode | None = None, "
              "node_handler: collections.abc.Callable[..., typing.Any] | None = None"},
             "Nodes for the gradients of everything before this one, with additions where an image "
             "has several readers; those whose results nobody reads. The handler is called with "
             "each new node, the node whose gradient it is (None for an addition), the image whose "
             "gradient it makes and the gradient it reads.",
             [](NNFilterNode& self, const Arguments& a) {
               return self.training_graph(a.nullable<NNImageNodePtr>("with_source_gradient"),
                                          gradient_handler(a));
             });
  cls.def("__repr__", [](const NNFilterNode& self) { return "<" + self.description() + ">"; });
  using Gradient = mps::NNGradientFilterNode;
  BoundClass<Gradient, NNFilterNode, std::shared_ptr<Gradient>>(
      module, "MPSNNGradientFilterNode",
      "The incoming gradient, the forward source and the forward node's state in.");
}

}  // namespace

py::object from_handle(const mps::HandlePtr& handle) {
  if (handle == nullptr) return py::none();
  if (handle->object == nullptr) return py::str(handle->label);
  return shared_object(handle->object);
}

void keep_arguments(NNFilterNode& node, const Arguments& arguments) {
  // What the caller may still change is kept as it is now.
  py::dict kept;
  for (const auto& [name, value] : arguments.all()) {
    const std::string type = py::cast<std::string>(py::type::of(value).attr("__name__"));
    if (py::isinstance<py::list>(value)) {
      kept[name] = py::tuple(py::reinterpret_borrow<py::object>(value));
    } else {
      kept[name] = type.ends_with("Descriptor") ? value.attr("copy")()
                                                : py::reinterpret_borrow<py::object>(value);
    }
  }
  node.made_of = share(std::move(kept));
}

void bind_mps_nodes(py::module_& module) {
  bind_image_nodes(module);
  bind_state_nodes(module);
  bind_filter(module);
}

}  // namespace traingraph::python
