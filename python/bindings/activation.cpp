#include <cctype>

#include "bindings.h"
#include "signature.h"

namespace traingraph::python {
namespace {

// One activation that Apple offers by name: its arguments, and for a and b a number, the name of an
// argument, or nothing for the type's own default.
struct ActivationFactory {
  const char* name;
  const char* form;
  ActivationType type;
  const char* a;
  const char* b;
  const char* doc;
};

constexpr ActivationFactory kActivationFactories[] = {
    {"relu", "", ActivationType::kReLU, "", "", "x for x > 0, else 0."},
    {"relu6", "", ActivationType::kReLUN, "0", "6", "ReLU, at most 6."},
    {"leaky_relu", "negative_slope: float = 0.01", ActivationType::kReLU, "negative_slope", "",
     "x for x > 0, else negative_slope * x."},
    {"linear", "scale: float, bias: float", ActivationType::kLinear, "scale", "bias",
     "scale * x + bias."},
    {"sigmoid", "", ActivationType::kSigmoid, "", "", "1 / (1 + exp(-x))."},
    {"hard_sigmoid", "", ActivationType::kHardSigmoid, "", "", "0.2 * x + 0.5 between 0 and 1."},
    {"tanh", "", ActivationType::kTanh, "", "", "tanh(x)."},
    {"absolute", "", ActivationType::kAbsolute, "", "", "|x|."},
    {"soft_plus", "beta: float = 1.0", ActivationType::kSoftPlus, "1", "beta",
     "log(1 + exp(beta * x)), not divided by beta."},
    {"soft_sign", "", ActivationType::kSoftSign, "", "", "x / (1 + |x|)."},
    {"elu", "a: float = 1.0", ActivationType::kELU, "a", "",
     "x for x >= 0, else a * (exp(x) - 1)."},
    {"relun", "a: float, b: float", ActivationType::kReLUN, "a", "b",
     "x for x >= 0, else a * x; at most b."},
    {"log_sigmoid", "", ActivationType::kLogSigmoid, "", "", "log(sigmoid(x))."},
    {"selu", "", ActivationType::kSELU, "", "", "Scaled ELU with its two constants."},
    {"celu", "a: float = 1.0", ActivationType::kCELU, "a", "",
     "x for x >= 0, else a * (exp(x / a) - 1)."},
    {"hard_shrink", "a: float = 0.5", ActivationType::kHardShrink, "a", "",
     "x where |x| > a, else 0."},
    {"soft_shrink", "a: float = 0.5", ActivationType::kSoftShrink, "a", "",
     "x moved towards 0 by a, 0 where |x| <= a."},
    {"tanh_shrink", "", ActivationType::kTanhShrink, "0", "", "x - tanh(x)."},
    {"threshold", "threshold: float, replacement: float", ActivationType::kThreshold, "threshold",
     "replacement", "x for x > threshold, else replacement."},
    {"gelu", "", ActivationType::kGELU, "0.7978845608", "0.044715",
     "GELU in its form with tanh: x / 2 * (1 + tanh(0.7978845608 * (x + 0.044715 * x**3)))."},
    {"hard_swish", "", ActivationType::kHardSwish, "", "", "x * (x + 3) / 6 between -3 and 3."},
    {"clamp", "min: float, max: float", ActivationType::kClamp, "min", "max",
     "x between min and max."},
};

std::optional<float> value_of(std::string_view text, const Arguments& arguments) {
  if (text.empty()) {
    return std::nullopt;
  }
  if (std::isdigit(static_cast<unsigned char>(text.front())) != 0) {
    return py::cast<float>(py::float_(py::str(text)));
  }
  return arguments.get<float>(text.data());
}

void bind_activation_descriptor(py::module_& module) {
  using Self = ActivationDescriptor;
  auto cls = BoundClass<Self>(module, "MLCActivationDescriptor",
                              "The function of an activation layer and its parameters.");
  def_init(cls,
           {"type: MLCActivationType | str", "type: MLCActivationType | str, a: float",
            "type: MLCActivationType | str, a: float, b: float",
            "type: MLCActivationType | str, a: float, b: float, c: float"},
           "What is not given takes the type's own default.", [](const Arguments& arguments) {
             return Self(arguments.get<ActivationType>("type"), arguments.optional<float>("a"),
                         arguments.optional<float>("b"), arguments.optional<float>("c"));
           });
  cls.def_property_readonly(
      "activation_type", [](const Self& self) { return self.type; }, "The function.");
  cls.def_readonly("a", &Self::a, "The first parameter.");
  cls.def_readonly("b", &Self::b, "The second parameter.");
  cls.def_readonly("c", &Self::c, "The third parameter; no function reads it.");
  def_copy(cls, [](const Self& self) { return self; });
  cls.def("__repr__", [](const Self& self) {
    return std::string("<MLCActivationDescriptor ") + debug_description(self.type) +
           " a=" + py::cast<std::string>(py::str(py::float_(self.a))) +
           " b=" + py::cast<std::string>(py::str(py::float_(self.b))) + ">";
  });
}

}  // namespace

void bind_activation(py::module_& module) {
  bind_activation_descriptor(module);
  auto cls = BoundClass<Activation, Layer, std::shared_ptr<Activation>>(
      module, "MLCActivationLayer", "Applies one function to each element.");
  def_init(cls, {"descriptor: MLCActivationDescriptor"},
           "Shapes: any (…) to the same. Types: float32; float64 on the reference device. "
           "Gradient: reads the result where it can, else the source.",
           [](const Arguments& arguments) {
             return std::make_shared<Activation>(arguments.get<ActivationDescriptor>("descriptor"));
           });
  for (const ActivationFactory& factory : kActivationFactories) {
    def_factory(
        cls, factory.name, "MLCActivationLayer", {factory.form}, factory.doc,
        [&factory](const Arguments& arguments) {
          return std::make_shared<Activation>(ActivationDescriptor(
              factory.type, value_of(factory.a, arguments), value_of(factory.b, arguments)));
        });
  }
  cls.def_property_readonly(
      "descriptor", [](const Activation& self) { return self.descriptor(); },
      "The function and its parameters.");
}

}  // namespace traingraph::python
