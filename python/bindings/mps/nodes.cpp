// Binds graph nodes by their descriptions, with handles, state nodes, gradient filters,
// training_graph() and callbacks.
#include <traingraph/mps/classes.h>

#include <typeindex>
#include <unordered_map>

#include "classes/described_class.h"
#include "classes/python_types.h"
#include "convert/release.h"
#include "mps/mps_bindings.h"

namespace traingraph::python {
namespace {

using mps::NNFilterNode;
using mps::NNFilterNodePtr;
using mps::NNImageNode;
using mps::NNImageNodePtr;
using mps::NNStateNode;
using mps::NNStateNodePtr;
using Object = std::shared_ptr<const void>;  // of the program

// --- values --------------------------------------------------------------------------------------

// Text, or any object with label().
mps::HandlePtr to_handle(py::handle value, const std::string& subject) {
  if (value.is_none()) return nullptr;
  mps::Handle handle;
  if (py::isinstance<py::str>(value)) {
    handle.label = to_text(value, {subject, "handle", "str"});
  } else if (py::hasattr(value, "label")) {
    const py::object label = value.attr("label");
    const py::object text = PyCallable_Check(label.ptr()) != 0 ? label() : label;
    if (!text.is_none()) handle.label = to_text(py::str(text), {subject, "handle's label", "str"});
  } else {
    refuse({subject, "handle", "str, an object with label(), or None"}, value);
  }
  handle.object = share(py::reinterpret_borrow<py::object>(value));
  return std::make_shared<mps::Handle>(std::move(handle));
}

// States of one class, which their node owns.
template <typename State>
void remember_state(const char* name) {
  remember_given<std::shared_ptr<State>>(
      name, [](const std::shared_ptr<State>& state) { return py::cast(NNStateNodePtr(state)); });
}

void remember_node_types() {
  remember<NNImageNodePtr>("MPSNNImageNode");
  remember<std::vector<NNImageNodePtr>>("list[MPSNNImageNode]");
  remember<NNStateNodePtr>("MPSNNStateNode");
  remember<std::vector<NNStateNodePtr>>("list[MPSNNStateNode]");
  remember<NNFilterNodePtr>("MPSNNFilterNode");
  remember_state<mps::CNNConvolutionGradientStateNode>("MPSCNNConvolutionGradientStateNode");
  remember_state<mps::NNLabelsNode>("MPSNNLabelsNode");
  remember<mps::TransformProvider>(
      "None", "None",
      [](py::handle value, const Where&) { return mps::TransformProvider{!value.is_none()}; },
      [](const mps::TransformProvider&) { return py::none(); });
  remember_enumerations<mps::NNTrainingStyle, mps::CNNBatchNormalizationFlags>();
  remember<mps::HandlePtr>(
      "typing.Any", "typing.Any",
      [](py::handle value, const Where& where) { return to_handle(value, where.subject); },
      [](const mps::HandlePtr& handle) { return from_handle(handle); });
  remember<Object>(
      "typing.Any", "typing.Any",
      [](py::handle value, const Where&) {
        return value.is_none() ? nullptr : share(py::reinterpret_borrow<py::object>(value));
      },
      [](const Object& object) { return shared_object(object); });
}

// --- classes -------------------------------------------------------------------------------------

// A node keeps the arguments it was made with: traingraph.mps.graph_coding reads them.
void keep_arguments(const std::any& made, const Arguments& arguments) {
  // What the caller may still change is kept as it is now.
  py::dict kept;
  for (const auto& [name, value] : items_of(arguments.all())) {
    const std::string type = class_of(value);
    if (py::isinstance<py::list>(value)) {
      kept[name] = py::tuple(py::reinterpret_borrow<py::object>(value));
    } else {
      kept[name] = type.ends_with("Descriptor") ? value.attr("copy")() : value;
    }
  }
  std::any_cast<const NNFilterNodePtr&>(made)->made_of = share(std::move(kept));
}

void bind_classes(py::module_& module) {
  std::unordered_map<std::type_index, Ownership> owners = {
      {typeid(NNImageNode), ownership<NNImageNode>()},
      {typeid(NNStateNode), ownership<NNStateNode>()},
      {typeid(NNFilterNode), ownership<NNFilterNode>()}};
  owners.at(typeid(NNFilterNode)).after_making = keep_arguments;
  for (const ClassDescription& description : mps::node_classes()) {
    const Ownership own =
        owners.at(description.base == nullptr ? *description.type : *description.base);
    bind_described(module, description, own);
    owners.emplace(*description.type, own);
  }
}

// --- methods -------------------------------------------------------------------------------------

mps::NNGradientHandler gradient_handler(const Arguments& arguments) {
  const py::object handler = arguments["node_handler"];
  if (handler.is_none()) return nullptr;
  if (PyCallable_Check(handler.ptr()) == 0) refuse(arguments.where("node_handler"), handler);
  return [handler](const NNFilterNodePtr& gradient, const NNFilterNodePtr& inference,
                   const NNImageNodePtr& inference_source, const NNImageNodePtr& gradient_source) {
    handler(gradient, inference, inference_source, gradient_source);
  };
}

void bind_gradient_filters(py::module_& module) {
  auto cls = described<NNFilterNode>(module, "MPSNNFilterNode");
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
  auto arithmetic = described<mps::NNBinaryArithmeticNode>(module, "MPSNNBinaryArithmeticNode");
  arithmetic.def(
      "gradient_class",
      [](const mps::NNBinaryArithmeticNode& self) -> py::object {
        const auto& names = mps::kArithmeticNames[static_cast<int>(self.operation())];
        if (names.gradient == nullptr) return py::none();
        return py::module_::import("traingraph._core").attr(names.gradient);
      },
      "The class of its gradient nodes, or None.");
}

// Numbers that the program's own object gives, by a method of two images.
mps::NNNumberCallback number_callback(const py::object& value, const Where& where,
                                      const char* method) {
  mps::NNNumberCallback callback;
  if (value.is_none()) return callback;
  if (!py::hasattr(value, method)) refuse(where, value);
  callback.object = share(value);
  callback.call = [kept = std::weak_ptr(callback.object), where, method](
                      const mps::ImagePtr& source, const mps::ImagePtr& destination) {
    const HeldGil held;
    return static_cast<float>(
        to_number(shared_object(kept.lock()).attr(method)(source, destination),
                  {where.subject + "." + where.name, "result", "float"}));
  };
  return callback;
}

// `get` and `set` take the node and the call-back.
template <typename Node, typename Get, typename Set>
void bind_callback(py::module_& module, const char* name, const char* method, Get get, Set set,
                   const char* text) {
  const Where where{
      name, "property_call_back",
      std::string("an object with ") + method + "(for_source_image, destination_image), or None"};
  auto cls = described<Node>(module, name);
  cls.def_property(
      "property_call_back",
      [get](const Node& self) -> py::object {
        const mps::NNNumberCallback callback = get(self);
        if (callback.object == nullptr) return py::none();
        return shared_object(callback.object);
      },
      [set, where, method](Node& self, const py::object& value) {
        set(self, number_callback(value, where, method));
      },
      text);
}

template <typename Node>
void bind_loss_callback(py::module_& module, const char* name) {
  bind_callback<Node>(
      module, name, "scalar_weight", [](const Node& self) { return self.property_callback; },
      [](Node& self, const mps::NNNumberCallback& value) { self.property_callback = value; },
      "Gives the weight at each encoding; another one than before compiles anew. A gradient node "
      "without one has its forward node's.");
}

void bind_callbacks(py::module_& module) {
  bind_loss_callback<mps::NNForwardLossNode>(module, "MPSNNForwardLossNode");
  bind_loss_callback<mps::NNLossGradientNode>(module, "MPSNNLossGradientNode");
  using Gram = mps::ParameterNode<mps::GramMatrixParameters>;
  bind_callback<Gram>(
      module, "MPSNNGramMatrixCalculationNode", "alpha",
      [](const Gram& self) { return self.parameters().property_callback; },
      [](Gram& self, const mps::NNNumberCallback& value) {
        self.set_parameters({self.parameters().alpha, value});
      },
      "Gives alpha at each encoding; another one than before compiles anew.");
}

}  // namespace

py::object from_node(const NNFilterNodePtr& node) {
  if (node == nullptr) return py::none();
  return cast_made(node->kind(), node);
}

py::object from_handle(const mps::HandlePtr& handle) {
  if (handle == nullptr) return py::none();
  if (handle->object == nullptr) return py::str(handle->label);
  return shared_object(handle->object);
}

void bind_mps_nodes(py::module_& module) {
  remember_node_types();
  bind_classes(module);
  described<NNImageNode>(module, "MPSNNImageNode").def("__repr__", [](const NNImageNode& self) {
    return "<MPSNNImageNode: " + self.description() + ">";
  });
  bind_gradient_filters(module);
  bind_callbacks(module);
}

}  // namespace traingraph::python
