#include "convolution.h"

#include "parameter.h"
#include "signature.h"

namespace traingraph::python {
namespace {

template <typename Self>
std::shared_ptr<Self> make_layer(const Arguments& arguments) {
  const auto descriptor = arguments.get<ConvolutionDescriptor>("descriptor");
  if (!arguments.given("weights")) {
    return std::make_shared<Self>(descriptor, arguments.get<bool>("with_biases"));
  }
  return std::make_shared<Self>(arguments.get<TensorPtr>("weights"),
                                arguments.nullable<TensorPtr>("biases"), descriptor);
}

template <typename Self>
void bind_layer_class(py::module_& module, const char* name, const char* doc,
                      const char* init_doc) {
  auto cls = BoundClass<Self, Layer, std::shared_ptr<Self>>(module, name, doc);
  def_init(cls,
           {"weights: MLCTensor, biases: MLCTensor | None = None, descriptor: "
            "MLCConvolutionDescriptor",
            "descriptor: MLCConvolutionDescriptor, with_biases: bool = True"},
           init_doc, make_layer<Self>);
  cls.def_property_readonly(
      "descriptor", [](const Self& self) { return self.descriptor(); },
      "Channels, kernel, strides and padding.");
  cls.def_property_readonly(
      "weights", [](Self& self) { return self.weights().tensor; }, "The weights.");
  cls.def_property_readonly(
      "biases", [](Self& self) { return self.biases().tensor; }, "The biases, or None.");
  def_parameter(cls, "weights_parameter", &Self::weights);
  def_parameter(cls, "biases_parameter", &Self::biases);
}

}  // namespace

void bind_convolution(py::module_& module) {
  bind_convolution_descriptor(module);
  bind_layer_class<Convolution>(
      module, "MLCConvolutionLayer", "Cross-correlation over images, plus a bias per channel.",
      "Without weights the layer makes its own: Glorot-uniform with real fans, biases zero. "
      "Shapes: x (N, C, H, W) to (N, O, P, Q); weights O * C / groups * kh * kw elements in that "
      "order, biases O. Gradient: reads the source and the weights. Errors: ValueError.");
  bind_layer_class<FullyConnected>(
      module, "MLCFullyConnectedLayer", "x Wᵀ + b on the last axis.",
      "Without weights the layer makes its own: Glorot-uniform with real fans, biases zero. "
      "Shapes: (…, C) to (…, O), or (N, C, 1, 1) to (N, O, 1, 1); weights O * C elements "
      "row-major, biases O. Gradient: reads the source and the weights. Errors: ValueError.");
}

}  // namespace traingraph::python
