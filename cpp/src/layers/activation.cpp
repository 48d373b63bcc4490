#include <sstream>

#include <traingraph/activation.h>
#include <traingraph/errors.h>

#include "layers/checks.h"
#include "runtime/range.h"

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

Activation::Activation(ActivationDescriptor descriptor)
    : Layer("Activation"), descriptor_(descriptor) {
  row(descriptor.type);
  // A limit may be infinite: it is none then.
  const Range& range = descriptor.type == ActivationType::kClamp ? kAnyNumber : kFinite;
  expect_in(range, "Activation", "a", static_cast<double>(descriptor.a));
  expect_in(range, "Activation", "b", static_cast<double>(descriptor.b));
  expect_in(range, "Activation", "c", static_cast<double>(descriptor.c));
  if (descriptor.type == ActivationType::kCELU && descriptor.a == 0) {
    throw InvalidArgument("[Activation] expected a of CELU other than 0 but got 0");
  }
}

std::string Activation::description() const {
  const Row& r = row(descriptor_.type);
  std::ostringstream text;
  text << "Activation " << r.name;
  if (r.parameters > 0) text << " a " << descriptor_.a;
  if (r.parameters > 1) text << " b " << descriptor_.b;
  return text.str();
}

// x (…) → y (…).
void Activation::emit(Emitter& e) const {
  e.expect_sources(1);
  expect_floating(e);
  const Row& r = row(descriptor_.type);
  Scalar function = r.function;
  int parameters = r.parameters;
  // Plain ReLU has a function of its own: most nets use it, and fused kernels know it.
  if (descriptor_.type == ActivationType::kReLU && descriptor_.a == 0) {
    function = Scalar::relu;
    parameters = 0;
  }
  const double p = parameters > 0 ? static_cast<double>(descriptor_.a) : 0;
  const double q = parameters > 1 ? static_cast<double>(descriptor_.b) : 0;
  ir::ValueId x = e.sources[0];
  if (r.is_constant(descriptor_)) x = ops::unary(e.graph, Scalar::clip, x, -1, 1);
  e.result(ops::unary(e.graph, function, x, p, q));
}

}  // namespace traingraph
