#include "bindings.h"
#include "signature.h"

namespace traingraph::python {

void bind_softmax(py::module_& module) {
  auto softmax = BoundClass<Softmax, Layer, std::shared_ptr<Softmax>>(
      module, "MLCSoftmaxLayer", "Softmax or its logarithm along one axis.");
  def_init(softmax, {"operation: MLCSoftmaxOperation | str, dimension: int = 1"},
           "Shapes: any (…) to the same. Gradient: reads the result.",
           [](const Arguments& arguments) {
             return std::make_shared<Softmax>(arguments.get<SoftmaxOperation>("operation"),
                                              arguments.get<std::int64_t>("dimension"));
           });
  softmax.def_property_readonly("operation", &Softmax::operation, "Softmax or its logarithm.");
  softmax.def_property_readonly("dimension", &Softmax::dimension, "The axis.");

  auto dropout = BoundClass<Dropout, Layer, std::shared_ptr<Dropout>>(
      module, "MLCDropoutLayer", "Drops elements at random while training.");
  def_init(dropout, {"rate: float, seed: int = 0"},
           "Elements vanish with probability rate, the others are divided by 1 - rate; inference "
           "is the identity. Seed 0: from MLCPlatform's seed and the layer's position.",
           [](const Arguments& arguments) {
             return std::make_shared<Dropout>(arguments.get<float>("rate"),
                                              arguments.get<std::uint64_t>("seed"));
           });
  dropout.def_property_readonly("rate", &Dropout::rate, "The probability of vanishing.");
  dropout.def_property_readonly("seed", &Dropout::seed, "The seed, 0 for none of its own.");
}

}  // namespace traingraph::python
