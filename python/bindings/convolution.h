#pragma once

#include "bindings.h"
#include "convert.h"

namespace traingraph::python {

void bind_convolution_descriptor(py::module_& module);

// What convolution and pooling descriptors share: the window and how it moves.
template <typename Class>
void def_window(Class& cls) {
  using Self = typename Class::type;
  cls.def_property_readonly(
      "kernel_sizes",
      [](const Self& self) { return std::pair(self.kernel_height, self.kernel_width); },
      "(height, width).");
  cls.def_readonly("kernel_height", &Self::kernel_height, "Units: elements.");
  cls.def_readonly("kernel_width", &Self::kernel_width, "Units: elements.");
  cls.def_property_readonly(
      "strides", [](const Self& self) { return std::pair(self.stride_y, self.stride_x); },
      "(y, x).");
  cls.def_readonly("stride_in_y", &Self::stride_y, "Units: elements.");
  cls.def_readonly("stride_in_x", &Self::stride_x, "Units: elements.");
  cls.def_property_readonly(
      "dilation_rates",
      [](const Self& self) { return std::pair(self.dilation_y, self.dilation_x); }, "(y, x).");
  cls.def_readonly("dilation_rate_in_y", &Self::dilation_y, "Distance of kernel elements.");
  cls.def_readonly("dilation_rate_in_x", &Self::dilation_x, "Distance of kernel elements.");
  cls.def_readonly("padding_size_in_y", &Self::padding_y, "0 unless the policy is sized.");
  cls.def_readonly("padding_size_in_x", &Self::padding_x, "0 unless the policy is sized.");
  py::options options;
  options.disable_function_signatures();
  cls.def_property_readonly(
      "padding_policy",
      py::cpp_function(
          [](const Self& self) {
            return from_padding(self.padding_policy, self.padding_y, self.padding_x);
          },
          "padding_policy(self) -> MLCPaddingPolicy\n\nThe policy, with its sizes if it has any."),
      "The policy, with its sizes if it has any.");
}

}  // namespace traingraph::python
