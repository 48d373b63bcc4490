// The activation layer: an op elementwise over the list of its type in ir/activations.def.
#include <cfloat>
#include <optional>
#include <variant>
#include <vector>

#include <traingraph/activation.h>
#include <traingraph/describe.h>
#include <traingraph/errors.h>

#include "ir/activations.h"
#include "ir/number_text.h"
#include "layers/activation_list.h"
#include "layers/checks.h"
#include "runtime/numbers/range.h"

namespace traingraph {
namespace {

// Of squareplus, whose gradient has the square of a reciprocal of about sqrt(b).
constexpr Range kOfBend{FLT_MIN, FLT_MAX, "2**-126 or more"};
constexpr int kRowCount = sizeof(ir::kActivations) / sizeof(ir::kActivations[0]);

const ir::ActivationRow& row(ActivationType type) {
  const int index = static_cast<int>(type);
  if (index < 0 || index >= kRowCount) {
    throw InvalidArgument("[Activation] expected a type from 0 to " +
                          std::to_string(kRowCount - 1) + " but got " + std::to_string(index));
  }
  return ir::kActivations[index];
}

}  // namespace

const char* debug_description(ActivationType type) { return row(type).description; }

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const ir::ActivationRow& row : ir::kActivations) names.emplace_back(row.name);
  return names;
}

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
  if (descriptor.type == ActivationType::kSquareplus) {
    expect_in(kOfBend, subject, "b", static_cast<double>(descriptor.b));
  }
}

ir::ScalarList activation_list(const ActivationDescriptor& descriptor) {
  return row(descriptor.type)
      .list(static_cast<double>(descriptor.a), static_cast<double>(descriptor.b));
}

Activation::Activation(ActivationDescriptor descriptor)
    : Layer("Activation"), descriptor_(descriptor) {
  check_activation(descriptor, "Activation");
}

std::string Activation::description() const {
  const ir::ActivationRow& r = row(descriptor_.type);
  PlainStream text;
  text << "Activation " << r.description;
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

// One activation by name. Arguments are those of a and b that are not given here, in this order.
struct ActivationFactory {
  const char* name;
  ActivationType type;
  const char* text;
  std::vector<Argument> arguments = {};
  std::optional<float> a = {}, b = {};

  ActivationDescriptor descriptor(const Given& given) const {
    std::optional<float> numbers[] = {a, b};
    auto argument = arguments.begin();
    for (std::optional<float>& number : numbers) {
      if (!number && argument != arguments.end()) number = given.get<float>((argument++)->name);
    }
    return ActivationDescriptor(type, numbers[0], numbers[1]);
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
  const auto given_by = [](auto... arguments) { return std::vector<Argument>{arguments...}; };
  static const std::vector<ActivationFactory> table = {
      {"relu", Type::kReLU, "x for x > 0, else 0."},
      {"relu6", Type::kReLUN, "ReLU, at most 6.", {}, 0.0f, 6.0f},
      {"leaky_relu", Type::kReLU, "x for x > 0, else negative_slope * x.",
       given_by(number_or("negative_slope", 0.01f, "The slope below 0."))},
      {"linear", Type::kLinear, "scale * x + bias.",
       given_by(number("scale", "The factor."), number("bias", "What is added."))},
      {"sigmoid", Type::kSigmoid, "1 / (1 + exp(-x))."},
      {"hard_sigmoid", Type::kHardSigmoid, "0.2 * x + 0.5 between 0 and 1."},
      {"tanh", Type::kTanh, "tanh(x)."},
      {"absolute", Type::kAbsolute, "|x|."},
      {"soft_plus", Type::kSoftPlus, "log(1 + exp(beta * x)), not divided by beta.",
       given_by(number_or("beta", 1.0f, "The factor of x.")), 1.0f},
      {"soft_sign", Type::kSoftSign, "x / (1 + |x|)."},
      {"elu", Type::kELU, "x for x >= 0, else a * (exp(x) - 1).",
       given_by(number_or("a", 1.0f, "The factor below 0."))},
      {"relun", Type::kReLUN, "x for x >= 0, else a * x; at most b.",
       given_by(number("a", "The slope below 0."), number("b", "The largest result."))},
      {"log_sigmoid", Type::kLogSigmoid, "log(sigmoid(x))."},
      {"selu", Type::kSELU, "Scaled ELU with its two constants."},
      {"celu", Type::kCELU, "x for x >= 0, else a * (exp(x / a) - 1).",
       given_by(number_or("a", 1.0f, "Below 0; not 0."))},
      {"hard_shrink", Type::kHardShrink, "x where |x| > a, else 0.",
       given_by(number_or("a", 0.5f, "What is cut."))},
      {"soft_shrink", Type::kSoftShrink, "x moved towards 0 by a, 0 where |x| <= a.",
       given_by(number_or("a", 0.5f, "How far x moves."))},
      {"tanh_shrink", Type::kTanhShrink, "x - tanh(x).", {}, 0.0f},
      {"threshold", Type::kThreshold, "x for x > threshold, else replacement.",
       given_by(number("threshold", "Above it x stays."),
                number("replacement", "The value elsewhere."))},
      {"gelu", Type::kGELU,
       "GELU in its form with tanh: x / 2 * (1 + tanh(0.7978845608 * (x + 0.044715 * x**3))).",
       given_by(), 0.7978845608f, 0.044715f},
      {"hard_swish", Type::kHardSwish, "x * (x + 3) / 6 between -3 and 3."},
      {"clamp", Type::kClamp, "x between min and max.",
       given_by(number("min", "The smallest result.", kAnyNumber),
                number("max", "The largest result.", kAnyNumber))},
      {"silu", Type::kSiLU, "SiLU or swish: x * sigmoid(x). An addition."},
      {"gelu_erf", Type::kGELUErf, "x / 2 * (1 + erf(x / sqrt(2))), the exact GELU. An addition."},
      {"mish", Type::kMish, "x * tanh(log(1 + exp(x))). An addition."},
      {"squareplus", Type::kSquareplus, "(x + sqrt(x**2 + b)) / 2. An addition.",
       given_by(argument("b", 4.0f, "How wide the bend is.", &kOfBend)), 1.0f},
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
    described.factory(factory.name, factory.text, {factory.arguments},
                      [&factory](const Given& given) {
                        return std::make_shared<Activation>(factory.descriptor(given));
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
