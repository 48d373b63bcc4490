// Kernels of two sources that work element by element, and their states.
#include <traingraph/mps/arithmetic.h>

#include "mps/description/describe_kernel.h"

namespace traingraph::mps {
namespace {

using Parameters = CNNArithmeticParameters;

// `part` is a member, or a function that finds one.
template <class K, class Parent, class Part>
Describing<K, Kernel, Parent>& describe_parameter(Describing<K, Kernel, Parent>& described,
                                                  const std::string& name, Part part,
                                                  const char* text) {
  return described.settable_part(name, &K::parameters, &K::set_parameters, part, text);
}

template <class K, class Parent>
void describe_strides(Describing<K, Kernel, Parent>& described, const std::string& source,
                      BroadcastStrides Parameters::* strides) {
  const auto stride = [&](const char* name, std::int64_t BroadcastStrides::* axis) {
    describe_parameter(
        described, source + name,
        [=](auto& parameters) -> auto& { return parameters.*strides.*axis; },
        "0: one element, the first or that of the offset, stands for all.")
        .in(kZeroOrOne);
  };
  stride("_stride_in_pixels_x", &BroadcastStrides::x);
  stride("_stride_in_pixels_y", &BroadcastStrides::y);
  stride("_stride_in_feature_channels", &BroadcastStrides::feature_channels);
}

template <class K, class Parent>
void describe_parameters(Describing<K, Kernel, Parent>& described) {
  using P = Parameters;
  describe_parameter(described, "primary_scale", &P::primary_scale,
                     "A factor of the primary image.")
      .in(kFinite);
  describe_parameter(described, "secondary_scale", &P::secondary_scale,
                     "A factor of the secondary image.")
      .in(kFinite);
  describe_parameter(described, "bias", &P::bias,
                     "Added to the result; a gradient kernel ignores it.")
      .in(kFinite);
  describe_parameter(described, "minimum_value", &P::minimum_value,
                     "The least result; a gradient kernel takes its state's mask instead.")
      .in(kAnyNumber);
  describe_parameter(described, "maximum_value", &P::maximum_value,
                     "The largest result; a gradient kernel takes its state's mask instead.")
      .in(kAnyNumber);
  describe_strides(described, "secondary", &P::secondary_strides);
}

constexpr const char* kOfSecondary = "is_secondary_source_filter";
constexpr const char* kOfSecondaryText = "Whether it is the gradient of the secondary image.";

ClassDescription all_arithmetic() {
  Describing<CNNArithmetic, Kernel, CNNBinaryKernel> described(
      "MPSCNNArithmetic",
      "clamp((primary_scale a) op (secondary_scale b) + bias, minimum_value, maximum_value).");
  describe_parameters(described);
  describe_strides(described, "primary", &Parameters::primary_strides);
  return described;
}

ClassDescription all_arithmetic_gradients() {
  using K = CNNArithmeticGradient;
  Describing<K, Kernel, CNNGradientKernel> described(
      "MPSCNNArithmeticGradient",
      "Sums over every axis along which the source was broadcast; nothing flows where the result "
      "was clamped.");
  describe_parameters(described);
  described.property(kOfSecondary, &K::is_secondary_source_filter, kOfSecondaryText);
  return described;
}

// --- by operation --------------------------------------------------------------------------------

ClassDescription arithmetic(const char* name, const char* summary,
                            CNNArithmeticOperation operation) {
  using K = CNNArithmetic;
  auto described = describe_kernel<K, K>(name, summary);
  if (operation == CNNArithmeticOperation::kCompare) {
    describe_parameter(described, "comparison_type", &Parameters::comparison,
                       "The comparison of primary and secondary image; EQUAL at the beginning.");
    describe_parameter(
        described, "threshold", &Parameters::threshold,
        "The largest difference of what counts as equal, and as neither less nor greater.")
        .in(kLimit);
  }
  return described.made_by(
      "Shapes: two of one size, or strides of 0 where the first element stands for all.",
      [operation](const Given& given) {
        return std::make_shared<K>(given.get<Device>("device"), operation);
      });
}

ClassDescription arithmetic_gradient(const std::string& name, CNNArithmeticOperation operation) {
  using K = CNNArithmeticGradient;
  return describe_kernel<K, K>(name + "Gradient", "The gradient of one of the two sources.")
      .kept_argument(kOfSecondary, &K::is_secondary_source_filter, kOfSecondaryText)
      .made_by(
          "The source image is the other one of the two. With a destination the scales stay as "
          "they are: the gradient of a subtrahend then needs primary_scale = -1.",
          [operation](const Given& given) {
            return std::make_shared<K>(given.get<Device>("device"), operation,
                                       given.get<bool>(kOfSecondary));
          });
}

}  // namespace

void describe_arithmetic(Classes& classes) {
  using enum CNNArithmeticOperation;
  classes.insert(
      classes.end(),
      {all_arithmetic(), all_arithmetic_gradients(), arithmetic("MPSCNNAdd", "The sum.", kAdd),
       arithmetic_gradient("MPSCNNAdd", kAdd),
       arithmetic("MPSCNNSubtract", "The difference.", kSubtract),
       arithmetic_gradient("MPSCNNSubtract", kSubtract),
       arithmetic("MPSCNNMultiply", "The product.", kMultiply),
       arithmetic_gradient("MPSCNNMultiply", kMultiply),
       arithmetic("MPSCNNDivide", "The quotient; it has no gradient kernel.", kDivide),
       arithmetic(
           "MPSNNCompare",
           "1 where a comparison holds, else 0, in place of the operator; it has no gradient "
           "kernel.",
           kCompare)});
}

void describe_arithmetic_states(Classes& classes) {
  classes.push_back(Describing<NNBinaryGradientState, State, GradientState>(
      "MPSNNBinaryGradientState",
      "The state of a forward kernel with two sources that its gradient kernel reads."));
  classes.push_back(Describing<CNNArithmeticGradientState, State, NNBinaryGradientState>(
      "MPSCNNArithmeticGradientState",
      "Sizes, scales and strides of one pair, and where the result was not clamped."));
}

}  // namespace traingraph::mps
