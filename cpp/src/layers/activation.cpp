// The activation layer: a table of all types with their defaults, each one scalar function of the
// op elementwise.
#include <optional>
#include <variant>
#include <vector>

#include <traingraph/activation.h>
#include <traingraph/describe.h>
#include <traingraph/errors.h>

#include "ir/number_text.h"
#include "layers/activation_list.h"
#include "layers/checks.h"
#include "runtime/numbers/range.h"

namespace traingraph {
namespace {

using ir::Scalar;

// One activation: its name, its own defaults of a and b, how many of them its formula reads, the
// scalar function that takes them as p and q, and which of them are factors of what may be
// infinite.
struct Row {
  const char* name;
  float a;
  float b;
  int parameters;
  Scalar function;
  bool multiplies_by_a = false;
  bool multiplies_by_b = false;

  // The value is one number then: not 0 times infinity, but NaN of NaN.
  bool is_constant(const ActivationDescriptor& d) const {
    return (multiplies_by_a && d.a == 0) || (multiplies_by_b && d.b == 0);
  }
};

constexpr Row kRows[] = {
    {"None", 1, 1, 0, Scalar::identity},
    {"ReLU", 0, 1, 1, Scalar::leaky_relu},
    {"Linear", 1, 0, 2, Scalar::affine, true},
    {"Sigmoid", 1, 1, 0, Scalar::sigmoid},
    {"Hard Sigmoid", 0.2f, 0.5f, 2, Scalar::hard_sigmoid, true},
    {"Tanh", 1, 1, 2, Scalar::tanh, false, true},
    {"Absolute", 1, 1, 0, Scalar::absolute},
    {"Soft Plus", 1, 1, 2, Scalar::soft_plus, true, true},
    {"Soft Sign", 1, 1, 0, Scalar::soft_sign},
    {"ELU", 1, 1, 1, Scalar::elu},
    {"ReLUN", 1, 1, 2, Scalar::relun},
    {"Log Sigmoid", 1, 1, 0, Scalar::log_sigmoid},
    {"SELU", 1, 1, 0, Scalar::selu},
    {"CELU", 1, 1, 1, Scalar::celu},
    {"Hard Shrink", 0.5f, 1, 1, Scalar::hard_shrink},
    {"Soft Shrink", 0.5f, 1, 1, Scalar::soft_shrink},
    {"Tanh Shrink", 1, 1, 0, Scalar::tanh_shrink},
    {"Threshold", 1, 1, 2, Scalar::threshold},
    // The tanh form with its own constants, whatever a and b say.
    {"GELU", 1, 1, 0, Scalar::gelu},
    {"HardSwish", 1, 1, 0, Scalar::hard_swish},
    {"Clamp", 1, 1, 2, Scalar::clip},
};
constexpr int kRowCount = sizeof(kRows) / sizeof(kRows[0]);

const Row& row(ActivationType type) {
  const int index = static_cast<int>(type);
  if (index < 0 || index >= kRowCount) {
    throw InvalidArgument("[Activation] expected a type from 0 to " +
                          std::to_string(kRowCount - 1) + " but got " + std::to_string(index));
  }
  return kRows[index];
}

}  // namespace

const char* debug_description(ActivationType type) { return row(type).name; }

ActivationDescriptor::ActivationDescriptor(ActivationType type_in, std::optional<float> a_in,
                                           std::optional<float> b_in, std::optional<float> c_in)
    : type(type_in),
      a(a_in.value_or(row(type_in).a)),
      b(b_in.value_or(row(type_in).b)),
      c(c_in.value_or(1.0f)) {}

void check_activation(const ActivationDescriptor& descriptor, const std::string& subject) {
  row(descriptor.type);
  // A limit may be infinite: it is none then.
  const Range& range = descriptor.type == ActivationType::kClamp ? kAnyNumber : kFinite;
  expect_in(range, subject, "a", static_cast<double>(descriptor.a));
  expect_in(range, subject, "b", static_cast<double>(descriptor.b));
  expect_in(range, subject, "c", static_cast<double>(descriptor.c));
  if (descriptor.type == ActivationType::kCELU && descriptor.a == 0) {
    throw InvalidArgument("[" + subject + "] expected a of CELU other than 0 but got 0");
  }
}

ir::ScalarList activation_list(const ActivationDescriptor& descriptor) {
  const Row& r = row(descriptor.type);
  Scalar function = r.function;
  int parameters = r.parameters;
  // Plain ReLU has a function of its own: most nets use it, and fused kernels know it.
  if (descriptor.type == ActivationType::kReLU && descriptor.a == 0) {
    function = Scalar::relu;
    parameters = 0;
  }
  ir::ScalarList list;
  list.inputs = 1;
  const int x = r.is_constant(descriptor) ? list.add(Scalar::clip, 0, -1, -1, 1) : 0;
  list.results = {list.add(function, x, -1, parameters > 0 ? static_cast<double>(descriptor.a) : 0,
                           parameters > 1 ? static_cast<double>(descriptor.b) : 0)};
  return list;
}

Activation::Activation(ActivationDescriptor descriptor)
    : Layer("Activation"), descriptor_(descriptor) {
  check_activation(descriptor, "Activation");
}

std::string Activation::description() const {
  const Row& r = row(descriptor_.type);
  PlainStream text;
  text << "Activation " << r.name;
  if (r.parameters > 0) text << " a " << descriptor_.a;
  if (r.parameters > 1) text << " b " << descriptor_.b;
  return text.str();
}

// x (…) → y (…).
void Activation::emit(Emitter& e) const {
  e.expect_sources(1);
  expect_floating(e);
  e.result(ops::elementwise(e.graph, activation_list(descriptor_), {e.sources[0]})[0]);
}

namespace {

// A number, or an argument; nothing for the type's own default.
using FactoryNumber = std::variant<std::monostate, float, Argument>;

std::optional<float> value_of(const FactoryNumber& number, const Given& given) {
  if (const auto* value = std::get_if<float>(&number)) return *value;
  if (const auto* argument = std::get_if<Argument>(&number)) {
    return given.get<float>(argument->name);
  }
  return std::nullopt;
}

// One activation that Apple offers by name.
struct ActivationFactory {
  const char* name;
  ActivationType type;
  const char* text;
  FactoryNumber a = {};
  FactoryNumber b = {};

  std::vector<Argument> arguments() const {
    std::vector<Argument> result;
    for (const FactoryNumber* number : {&a, &b}) {
      if (const auto* argument = std::get_if<Argument>(number)) result.push_back(*argument);
    }
    return result;
  }
};

const std::vector<ActivationFactory>& factories() {
  using Type = ActivationType;
  const auto number = [](const char* name, const char* text, const Range& range = kFinite) {
    return argument<float>(name, text, &range);
  };
  const auto number_or = [](const char* name, float value_if_absent, const char* text) {
    return argument(name, value_if_absent, text, &kFinite);
  };
  static const std::vector<ActivationFactory> table = {
      {"relu", Type::kReLU, "x for x > 0, else 0."},
      {"relu6", Type::kReLUN, "ReLU, at most 6.", 0.0f, 6.0f},
      {"leaky_relu", Type::kReLU, "x for x > 0, else negative_slope * x.",
       number_or("negative_slope", 0.01f, "The slope below 0.")},
      {"linear", Type::kLinear, "scale * x + bias.", number("scale", "The factor."),
       number("bias", "What is added.")},
      {"sigmoid", Type::kSigmoid, "1 / (1 + exp(-x))."},
      {"hard_sigmoid", Type::kHardSigmoid, "0.2 * x + 0.5 between 0 and 1."},
      {"tanh", Type::kTanh, "tanh(x)."},
      {"absolute", Type::kAbsolute, "|x|."},
      {"soft_plus", Type::kSoftPlus, "log(1 + exp(beta * x)), not divided by beta.", 1.0f,
       number_or("beta", 1.0f, "The factor of x.")},
      {"soft_sign", Type::kSoftSign, "x / (1 + |x|)."},
      {"elu", Type::kELU, "x for x >= 0, else a * (exp(x) - 1).",
       number_or("a", 1.0f, "The factor below 0.")},
      {"relun", Type::kReLUN, "x for x >= 0, else a * x; at most b.",
       number("a", "The slope below 0."), number("b", "The largest result.")},
      {"log_sigmoid", Type::kLogSigmoid, "log(sigmoid(x))."},
      {"selu", Type::kSELU, "Scaled ELU with its two constants."},
      {"celu", Type::kCELU, "x for x >= 0, else a * (exp(x / a) - 1).",
       number_or("a", 1.0f, "Below 0; not 0.")},
      {"hard_shrink", Type::kHardShrink, "x where |x| > a, else 0.",
       number_or("a", 0.5f, "What is cut.")},
      {"soft_shrink", Type::kSoftShrink, "x moved towards 0 by a, 0 where |x| <= a.",
       number_or("a", 0.5f, "How far x moves.")},
      {"tanh_shrink", Type::kTanhShrink, "x - tanh(x).", 0.0f},
      {"threshold", Type::kThreshold, "x for x > threshold, else replacement.",
       number("threshold", "Above it x stays."), number("replacement", "The value elsewhere.")},
      {"gelu", Type::kGELU,
       "GELU in its form with tanh: x / 2 * (1 + tanh(0.7978845608 * (x + 0.044715 * x**3))).",
       0.7978845608f, 0.044715f},
      {"hard_swish", Type::kHardSwish, "x * (x + 3) / 6 between -3 and 3."},
      {"clamp", Type::kClamp, "x between min and max.",
       number("min", "The smallest result.", kAnyNumber),
       number("max", "The largest result.", kAnyNumber)},
  };
  return table;
}

constexpr Range kParameter{-kInfinite, kInfinite, "a finite number; of CLAMP maybe infinite"};

ClassDescription described_descriptor() {
  using D = ActivationDescriptor;
  Describing<D> described("MLCActivationDescriptor",
                          "The function of an activation layer and its parameters.");
  described.property("activation_type", &D::type, "The function.")
      .property("a", &D::a, "The first parameter.")
      .property("b", &D::b, "The second parameter.")
      .property("c", &D::c, "The third parameter; no function reads it.")
      .text("What is not given takes the type's own default.");
  std::vector<Argument> arguments{argument<ActivationType>("type", "The function.")};
  const auto number_of = [](const Given& given, const char* name) {
    return given.find(name) != nullptr ? std::optional(given.get<float>(name)) : std::nullopt;
  };
  const auto make = [number_of](const Given& given) {
    return D(given.get<ActivationType>("type"), number_of(given, "a"), number_of(given, "b"),
             number_of(given, "c"));
  };
  described.form(arguments, make);
  const std::pair<const char*, const char*> parameters[] = {
      {"a", "The first parameter of the function."},
      {"b", "The second parameter of the function."},
      {"c", "A third parameter, which no function reads."}};
  for (const auto& [name, text] : parameters) {
    arguments.push_back(argument<float>(name, text, &kParameter));
    described.form(arguments, make);
  }
  return described;
}

ClassDescription described_layer() {
  Describing<Activation, Layer> described("MLCActivationLayer",
                                          "Applies one function to each element.");
  described.argument("descriptor", &Activation::descriptor, "The function and its parameters.")
      .made_of<ActivationDescriptor>(
          "Shapes: any (…) to the same. Types: float32; float64 on the reference device. "
          "Gradient: reads the result where it can, else the source. Errors: a parameter that is "
          "not finite, and sources of whole numbers.")
      .sample([](DataType t) {
        return LayerSample{
            std::make_shared<Activation>(ActivationDescriptor(ActivationType::kReLU)),
            {{{2, 2}, t}}};
      });
  for (const ActivationFactory& factory : factories()) {
    described.factory(factory.name, factory.text, {factory.arguments()},
                      [&factory](const Given& given) {
                        return std::make_shared<Activation>(ActivationDescriptor(
                            factory.type, value_of(factory.a, given), value_of(factory.b, given)));
                      });
  }
  return described;
}

}  // namespace

const ClassDescription& ActivationDescriptor::class_description() {
  static const ClassDescription description = described_descriptor();
  return description;
}

const ClassDescription& Activation::class_description() {
  static const ClassDescription description = described_layer();
  return description;
}

}  // namespace traingraph
