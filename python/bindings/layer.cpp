#include <pybind11/stl.h>

#include "bindings.h"
#include "signature.h"

namespace traingraph::python {

void bind_layer(py::module_& module) {
  auto cls = BoundClass<Layer, LayerPtr>(module, "MLCLayer",
                                         "What a graph is composed of; belongs to one graph.");
  cls.def_property_readonly("layer_id", &Layer::id, "Unique in the process.");
  cls.def_property("label", &Layer::label, &Layer::set_label, "A name for messages.");
  cls.def_property("is_debugging_enabled", &Layer::is_debugging_enabled,
                   &Layer::set_debugging_enabled,
                   "Whether results and gradients stay readable under the option DEBUG_LAYERS.");
  cls.def_property_readonly("device_type", &Layer::device_type,
                            "Where the layer was compiled for; None before.");
  def_identity(cls);
  cls.def("__repr__", [](const py::object& self) {
    const auto& layer = py::cast<const Layer&>(self);
    return "<" + py::cast<std::string>(py::type::of(self).attr("__name__")) + " " +
           std::to_string(layer.id()) + " '" + layer.label() + "': " + layer.description() + ">";
  });
}

}  // namespace traingraph::python
