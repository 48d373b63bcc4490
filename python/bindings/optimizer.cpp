#include "bindings.h"
#include "described_class.h"
#include "signature.h"

namespace traingraph::python {
namespace {

// Those of the descriptor that an optimizer shows as they are.
std::vector<Property>& numbers() {
  static auto* const properties = new std::vector<Property>;
  for (Property property : OptimizerDescriptor::class_description().properties) {
    const bool may_change =
        property.name == "learning_rate" || property.name == "applies_gradient_clipping";
    if (may_change) continue;
    property.get = [of = property.get](const void* self) {
      return of(&static_cast<const Optimizer*>(self)->descriptor());
    };
    properties->push_back(std::move(property));
  }
  return *properties;
}

}  // namespace

void bind_optimizer(py::module_& module) {
  auto cls = BoundClass<Optimizer, OptimizerPtr>(module, "MLCOptimizer",
                                                 "A rule that turns gradients into updates.");
  cls.def_property(
      "learning_rate", &Optimizer::learning_rate, &Optimizer::set_learning_rate,
      "Finite, also negative. May change at any time; executions submitted afterwards use "
      "it.");
  cls.def_property("applies_gradient_clipping", &Optimizer::applies_gradient_clipping,
                   &Optimizer::set_applies_gradient_clipping, "May change at any time.");
  add_properties(cls, typeid(Optimizer), numbers());
  def_copy(cls, [](const Optimizer& self) { return self.copy(); });
  cls.def("__repr__", [](const py::object& self) {
    return "<" + py::cast<std::string>(py::type::of(self).attr("__name__")) + " " +
           py::cast<const Optimizer&>(self).description() + ">";
  });
}

}  // namespace traingraph::python
