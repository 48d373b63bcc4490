// ML Compute's classes that are described in the core.
#include <pybind11/stl.h>

#include <algorithm>

#include "bindings.h"
#include "convert.h"
#include "described_class.h"
#include "python_types.h"
#include "signature.h"

namespace traingraph::python {
namespace {

template <typename Base>
void bind_all(py::module_& module, const std::vector<DescribedClass>& classes) {
  for (const DescribedClass& described : classes) {
    const ClassDescription& description = described();
    bind_described(module, description,
                   description.copy == nullptr ? ownership<Base>() : ownership<void>());
  }
}

void add_support(py::handle cls, LayerSample (*sample)(DataType)) {
  auto layer = py::reinterpret_borrow<BoundClass<Layer, LayerPtr>>(cls);
  def_factory(layer, "supports_data_type", "bool",
              {"data_type: MLCDataType | DTypeLike, on: MLCDevice | str"},
              "Whether the device has the kernels to compute such layers in this type, forward "
              "and gradient; asked of MLCLayer itself, whether it computes in the type at all.",
              [sample](const Arguments& arguments) {
                const LayerSample made = sample(arguments.get<DataType>("data_type"));
                return has_kernels(*made.layer, made.sources, arguments.get<Device>("on"));
              });
}

// None where the device computes layers of this class in this type.
std::optional<std::string> why_unsupported(const std::string& layer, py::handle data_type,
                                           py::handle on) {
  const auto& classes = layer_classes();
  const auto found = std::ranges::find_if(
      classes, [&layer](DescribedClass described) { return described().name == layer; });
  if (found == classes.end() || (*found)().sample == nullptr) {
    throw InvalidArgument("[why_unsupported] expected the name of a class of layers but got '" +
                          layer + "'");
  }
  const LayerSample made = (*found)().sample(to_data_type(data_type));
  std::string why = why_without_kernels(*made.layer, made.sources, to_device(on));
  return why.empty() ? std::nullopt : std::optional(std::move(why));
}

}  // namespace

void bind_layers(py::module_& module) {
  remember_plain_types();
  bind_all<Layer>(module, layer_classes());
  auto cls = py::reinterpret_borrow<BoundClass<Layer, LayerPtr>>(module.attr("MLCLayer"));
  def_identity(cls);
  cls.def("__repr__", [](const py::object& self) {
    const auto& layer = py::cast<const Layer&>(self);
    return "<" + class_of(self) + " " + std::to_string(layer.id()) + " '" + layer.label() +
           "': " + layer.description() + ">";
  });
  auto padding =
      py::reinterpret_borrow<BoundClass<Layer, LayerPtr>>(module.attr("MLCPaddingLayer"));
  def_copy(padding, [](const Layer& self) { return static_cast<const Pad&>(self).copy(); });
  for (const DescribedClass& described : layer_classes()) {
    const ClassDescription& description = described();
    if (description.sample == nullptr) continue;
    add_support(module.attr(description.name.c_str()), description.sample);
  }
  add_support(module.attr("MLCLayer"), Activation::class_description().sample);
  module.def("why_unsupported", &why_unsupported, py::arg("layer"), py::arg("data_type"),
             py::arg("on"),
             "Why a device does not compute layers of a class in a type; None where it does.");
}

void bind_optimizers(py::module_& module) {
  bind_all<Optimizer>(module, optimizer_classes());
  auto cls =
      py::reinterpret_borrow<BoundClass<Optimizer, OptimizerPtr>>(module.attr("MLCOptimizer"));
  def_copy(cls, [](const Optimizer& self) { return self.copy(); });
  cls.def("__repr__", [](const py::object& self) {
    return "<" + class_of(self) + " " + py::cast<const Optimizer&>(self).description() + ">";
  });
}

}  // namespace traingraph::python
