#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mps_bindings.h"

namespace traingraph::python {

inline mps::NeuronDescriptor fused_neuron(const Arguments& arguments) {
  return arguments.optional<mps::NeuronDescriptor>("fused_neuron_descriptor")
      .value_or(mps::NeuronDescriptor{});
}

// Copying and coding: traingraph.mps.kernel_coding says of what each class consists, and
// traingraph.mps.graph_coding writes the nodes of a graph.
inline py::object kernel_coding(const char* function, const char* module = "kernel_coding") {
  return py::module_::import((std::string("traingraph.mps.") + module).c_str()).attr(function);
}

// A kernel's constructor, with the form that takes a coder.
template <typename Class, typename Make>
void def_kernel(Class& cls, std::vector<std::string> forms, const char* doc, Make make,
                const char* module = "kernel_coding") {
  using Pointer = std::shared_ptr<typename Class::type>;
  forms.emplace_back("coder: typing.Any, device: MTLDevice | MLCDevice | str | None = None");
  def_init(cls, forms, doc, [make, module](const Arguments& arguments) -> Pointer {
    if (!arguments.given("coder")) return make(arguments);
    return py::cast<Pointer>(kernel_coding("decoded", module)(
        py::type::of<typename Class::type>(), arguments["coder"], arguments["device"]));
  });
}

inline constexpr const char* kDevice = "device: MTLDevice | MLCDevice | str";

// A kernel that is made of its device alone.
template <typename T, typename Base>
py::class_<T, Base, std::shared_ptr<T>> bind_plain(py::module_& module, const char* name,
                                                   const char* doc, const char* detail) {
  auto cls = py::class_<T, Base, std::shared_ptr<T>>(module, name, doc);
  def_kernel(cls, {kDevice}, detail, [](const Arguments& arguments) {
    return std::make_shared<T>(to_mps_device(arguments["device"]));
  });
  return cls;
}

// Of the class that all kernels derive from, and of graphs.
template <typename Class>
void def_coding(Class& cls, const char* module = "kernel_coding") {
  using Self = typename Class::type;
  cls.def(
      "encode_with_coder",
      [module](Self& self, const py::object& coder) {
        kernel_coding("encode", module)(py::cast(&self), coder);
      },
      py::arg("coder"),
      "Writes all properties into a coder, such as NSKeyedArchiver; of a data source what it gives "
      "now.");
  const auto copy = [module](Self& self) {
    return kernel_coding("copied", module)(py::cast(&self), py::none());
  };
  cls.def("__copy__", copy, "As copy().");
  cls.def(
      "__deepcopy__", [copy](Self& self, const py::object&) { return copy(self); }, py::arg("memo"),
      "As copy().");
  def_method(
      cls, "copy", "typing.Self", {"device: MTLDevice | MLCDevice | str | None = None"},
      "An independent kernel with the same properties, on this device or another one. A data "
      "source is copied by its copy(device=) or __copy__, or shared when it has neither.",
      [module](Self& self, const Arguments& arguments) {
        return kernel_coding("copied", module)(py::cast(&self), arguments["device"]);
      });
}

}  // namespace traingraph::python
