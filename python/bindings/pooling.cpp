#include "bindings.h"
#include "convolution.h"
#include "signature.h"

namespace traingraph::python {
namespace {

PoolingDescriptor make_pooling_descriptor(const Arguments& arguments) {
  const auto sizes = arguments.get<Pair>("kernel_sizes");
  const auto strides = arguments.get<Pair>("strides");
  const auto dilations = arguments.get<Pair>("dilation_rates");
  const auto padding = arguments.get<Padding>("padding_policy");
  return {arguments.get<PoolingType>("type"),
          sizes.y,
          sizes.x,
          strides.y,
          strides.x,
          dilations.y,
          dilations.x,
          padding.policy,
          padding.sizes.y,
          padding.sizes.x,
          arguments.get<bool>("count_includes_padding")};
}

}  // namespace

void bind_pooling(py::module_& module) {
  using Self = PoolingDescriptor;
  auto descriptor = BoundClass<Self>(module, "MLCPoolingDescriptor",
                                     "The function, window and strides of a pooling layer.");
  def_init(descriptor,
           {"type: MLCPoolingType | str, kernel_sizes: tuple[int, int], strides: tuple[int, int], "
            "dilation_rates: tuple[int, int] = (1, 1), "
            "padding_policy: MLCPaddingPolicy | str = MLCPaddingPolicy.SAME, "
            "count_includes_padding: bool = False"},
           "Pairs are (height, width) and (y, x); count_includes_padding concerns AVERAGE.",
           make_pooling_descriptor);
  descriptor.def_property_readonly(
      "pooling_type", [](const Self& self) { return self.type; }, "The function.");
  def_window(descriptor);
  descriptor.def_readonly("count_includes_padding", &Self::count_includes_padding,
                          "Whether an average divides by padded elements too.");
  def_copy(descriptor, [](const Self& self) { return self; });
  descriptor.def("__repr__", [](const Self& self) {
    return "<MLCPoolingDescriptor " + py::cast<std::string>(py::cast(self.type).attr("name")) +
           " " + std::to_string(self.kernel_height) + "x" + std::to_string(self.kernel_width) + ">";
  });

  auto layer = BoundClass<Pooling, Layer, std::shared_ptr<Pooling>>(
      module, "MLCPoolingLayer", "Joins the elements of each window.");
  def_init(layer, {"descriptor: MLCPoolingDescriptor"},
           "Shapes: (N, C, H, W) to (N, C, P, Q). Gradient: MAX gives it to the first largest "
           "element; L2_NORM gives 0 where the result is 0.",
           [](const Arguments& arguments) {
             return std::make_shared<Pooling>(arguments.get<PoolingDescriptor>("descriptor"));
           });
  layer.def_property_readonly(
      "descriptor", [](const Pooling& self) { return self.descriptor(); },
      "The function, window and strides.");
}

}  // namespace traingraph::python
