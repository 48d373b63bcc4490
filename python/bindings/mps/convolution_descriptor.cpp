// Adds supports_secure_coding, a property of the class, to convolution descriptors.
#include "mps/mps_bindings.h"

namespace traingraph::python {
void bind_mps_convolution_descriptor(py::module_& module) {
  using Self = mps::CNNConvolutionDescriptor;
  auto cls = described<Self>(module, "MPSCNNConvolutionDescriptor");
  const Body yes = [](py::detail::function_call&) { return py::bool_(true).release(); };
  const char* const name = "supports_secure_coding";
  const py::handle property(
      reinterpret_cast<PyObject*>(py::detail::get_internals().static_property_type));
  cls.attr(name) =
      property(make_function({yes, Capture(0), {"({object}) -> bool", {}}, 1, cls, name}),
               py::none(), py::none(), "True.");
}

}  // namespace traingraph::python
