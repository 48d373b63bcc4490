#include "bindings.h"
#include "signature.h"

namespace traingraph::python {
namespace {

const std::string kDescriptorForm =
    "learning_rate: float, gradient_rescale: float = 1.0, "
    "applies_gradient_clipping: bool = False, "
    "gradient_clipping_type: MLCGradientClippingType | str = MLCGradientClippingType.BY_VALUE, "
    "gradient_clip_max: float = 1.0, gradient_clip_min: float = -1.0, "
    "maximum_clipping_norm: float = 1.0, custom_global_norm: float = 0.0, "
    "regularization_type: MLCRegularizationType | str = MLCRegularizationType.NONE, "
    "regularization_scale: float = 0.0";

OptimizerDescriptor make_optimizer_descriptor(const Arguments& arguments) {
  OptimizerDescriptor result;
  result.learning_rate = arguments.get<float>("learning_rate");
  result.gradient_rescale = arguments.get<float>("gradient_rescale");
  result.regularization_type = arguments.get<RegularizationType>("regularization_type");
  result.regularization_scale = arguments.get<float>("regularization_scale");
  result.applies_gradient_clipping = arguments.get<bool>("applies_gradient_clipping");
  result.gradient_clipping_type = arguments.get<GradientClippingType>("gradient_clipping_type");
  result.gradient_clip_max = arguments.get<float>("gradient_clip_max");
  result.gradient_clip_min = arguments.get<float>("gradient_clip_min");
  result.maximum_clipping_norm = arguments.get<float>("maximum_clipping_norm");
  result.custom_global_norm = arguments.get<float>("custom_global_norm");
  return result;
}

// A descriptor, or the keywords that make one.
OptimizerDescriptor optimizer_descriptor_of(const Arguments& arguments) {
  return arguments.given("descriptor") ? arguments.get<OptimizerDescriptor>("descriptor")
                                       : make_optimizer_descriptor(arguments);
}

std::vector<std::string> forms(const std::string& own) {
  return {"descriptor: MLCOptimizerDescriptor, " + own, kDescriptorForm + ", " + own};
}

AdamOptions adam_options(const Arguments& arguments) {
  return {arguments.get<float>("beta1"), arguments.get<float>("beta2"),
          arguments.get<float>("epsilon"), arguments.get<bool>("uses_amsgrad"),
          arguments.get<std::int64_t>("time_step")};
}

// The numbers that descriptors and optimizers both show.
template <typename Class, typename Access>
void def_numbers(Class& cls, Access access) {
  using Self = typename Class::type;
  const auto number = [&cls, access](const char* name, auto member, const char* doc) {
    cls.def_property_readonly(
        name, [access, member](const Self& self) { return access(self).*member; }, doc);
  };
  using D = OptimizerDescriptor;
  number("gradient_rescale", &D::gradient_rescale, "The factor of a clipped gradient: finite.");
  number("regularization_type", &D::regularization_type, "The penalty on weights.");
  number("regularization_scale", &D::regularization_scale,
         "The factor of the penalty: finite, also negative.");
  number("gradient_clipping_type", &D::gradient_clipping_type, "What gradients are clipped by.");
  number("gradient_clip_max", &D::gradient_clip_max,
         "The largest element, BY_VALUE; may be infinite.");
  number("gradient_clip_min", &D::gradient_clip_min,
         "The smallest element, BY_VALUE: gradient_clip_max or less; may be infinite.");
  number("maximum_clipping_norm", &D::maximum_clipping_norm,
         "The largest norm: 0 or more; may be infinite.");
  number("custom_global_norm", &D::custom_global_norm,
         "Replaces the joint norm of all gradients unless it is 0: 0 or more, finite.");
}

void bind_optimizer_descriptor(py::module_& module) {
  using Self = OptimizerDescriptor;
  auto cls = BoundClass<Self>(module, "MLCOptimizerDescriptor",
                              "What all optimizers share: rate, rescaling, clipping, penalty.");
  def_init(
      cls, {kDescriptorForm},
      "A gradient is clipped, rescaled, regularized and then applied. Errors: a number outside "
      "the range that its property states.",
      [](const Arguments& arguments) {
        const Self made = make_optimizer_descriptor(arguments);
        made.check("MLCOptimizerDescriptor");
        return made;
      });
  cls.def_readonly("learning_rate", &Self::learning_rate,
                   "The size of a step: finite, also negative.");
  cls.def_readonly("applies_gradient_clipping", &Self::applies_gradient_clipping,
                   "Whether gradients are clipped.");
  def_numbers(cls, [](const Self& self) -> const Self& { return self; });
  def_copy(cls, [](const Self& self) { return self; });
  cls.def("__repr__", [](const Self& self) {
    return "<MLCOptimizerDescriptor learning_rate=" +
           py::cast<std::string>(py::str(py::float_(self.learning_rate))) + ">";
  });
}

void bind_base(py::module_& module) {
  auto cls = BoundClass<Optimizer, OptimizerPtr>(module, "MLCOptimizer",
                                                 "A rule that turns gradients into updates.");
  cls.def_property(
      "learning_rate", &Optimizer::learning_rate, &Optimizer::set_learning_rate,
      "Finite, also negative. May change at any time; executions submitted afterwards use "
      "it.");
  cls.def_property("applies_gradient_clipping", &Optimizer::applies_gradient_clipping,
                   &Optimizer::set_applies_gradient_clipping, "May change at any time.");
  def_numbers(
      cls, [](const Optimizer& self) -> const OptimizerDescriptor& { return self.descriptor(); });
  def_copy(cls, [](const Optimizer& self) { return self.copy(); });
  cls.def("__repr__", [](const py::object& self) {
    return "<" + py::cast<std::string>(py::type::of(self).attr("__name__")) + " " +
           py::cast<const Optimizer&>(self).description() + ">";
  });
}

template <typename Self>
void bind_adam(py::module_& module, const char* name, const char* doc, const char* init_doc) {
  auto cls = BoundClass<Self, Optimizer, std::shared_ptr<Self>>(module, name, doc);
  def_init(cls,
           forms("beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, "
                 "uses_amsgrad: bool = False, time_step: int = 1"),
           init_doc, [](const Arguments& arguments) {
             return std::make_shared<Self>(optimizer_descriptor_of(arguments),
                                           adam_options(arguments));
           });
  const auto option = [&cls](const char* property, auto member, const char* text) {
    cls.def_property_readonly(
        property, [member](const Self& self) { return self.options().*member; }, text);
  };
  option("beta1", &AdamOptions::beta1, "What the first moment keeps: from 0 to less than 1.");
  option("beta2", &AdamOptions::beta2, "What the second moment keeps: from 0 to less than 1.");
  option("epsilon", &AdamOptions::epsilon,
         "Added to the root of the second moment: 0 or more, finite; below 1.2e-38 it counts as "
         "that.");
  option("uses_amsgrad", &AdamOptions::uses_amsgrad,
         "Whether the largest second moment so far is used.");
  cls.def_property_readonly("time_step", &Self::time_step,
                            "The step of the next update, from 1 to 2**53.");
}

void bind_sgd(py::module_& module) {
  auto cls = BoundClass<SGD, Optimizer, std::shared_ptr<SGD>>(module, "MLCSGDOptimizer",
                                                              "Gradient descent with momentum.");
  def_init(cls, forms("momentum_scale: float = 0.0, uses_nesterov_momentum: bool = False"),
           "v = m * v + lr * g, p -= v; Nesterov: v = m * v + g, p -= lr * (g + m * v).",
           [](const Arguments& arguments) {
             return std::make_shared<SGD>(optimizer_descriptor_of(arguments),
                                          arguments.get<float>("momentum_scale"),
                                          arguments.get<bool>("uses_nesterov_momentum"));
           });
  cls.def_property_readonly("momentum_scale", &SGD::momentum,
                            "What the velocity keeps: from 0 to 1.");
  cls.def_property_readonly("uses_nesterov_momentum", &SGD::nesterov,
                            "Whether the gradient is taken ahead.");
}

void bind_rmsprop(py::module_& module) {
  auto cls = BoundClass<RMSProp, Optimizer, std::shared_ptr<RMSProp>>(
      module, "MLCRMSPropOptimizer", "Steps divided by the root of a running mean square.");
  def_init(
      cls,
      forms("momentum_scale: float = 0.0, alpha: float = 0.99, epsilon: float = 1e-8, "
            "is_centered: bool = False"),
      "n = alpha * n + (1 - alpha) * g**2; step = m * step - lr * g / (sqrt(n) + epsilon); "
      "p += step.",
      [](const Arguments& arguments) {
        return std::make_shared<RMSProp>(
            optimizer_descriptor_of(arguments),
            RMSPropOptions{arguments.get<float>("momentum_scale"), arguments.get<float>("alpha"),
                           arguments.get<float>("epsilon"), arguments.get<bool>("is_centered")});
      });
  const auto option = [&cls](const char* property, auto member, const char* text) {
    cls.def_property_readonly(
        property, [member](const RMSProp& self) { return self.options().*member; }, text);
  };
  option("momentum_scale", &RMSPropOptions::momentum, "What the step keeps: from 0 to 1.");
  option("alpha", &RMSPropOptions::alpha, "What the mean square keeps: from 0 to 1.");
  option("epsilon", &RMSPropOptions::epsilon,
         "Added to the root: 0 or more, finite; below 1.2e-38 it counts as that.");
  option("is_centered", &RMSPropOptions::is_centered, "Whether the mean is taken off.");
}

}  // namespace

void bind_optimizer(py::module_& module) {
  bind_optimizer_descriptor(module);
  bind_base(module);
  bind_sgd(module);
  bind_adam<Adam>(module, "MLCAdamOptimizer", "Adam.",
                  "p -= lr * sqrt(1 - b2**t) / (1 - b1**t) * m / (sqrt(v) + epsilon). Source: "
                  "Kingma and Ba, 2015, arXiv:1412.6980.");
  bind_adam<AdamW>(module, "MLCAdamWOptimizer", "Adam with a decoupled L2 penalty.",
                   "Adam, and p also decreases by lr * regularization_scale * p. Source: "
                   "Loshchilov and Hutter, 2019, arXiv:1711.05101.");
  bind_rmsprop(module);
}

}  // namespace traingraph::python
