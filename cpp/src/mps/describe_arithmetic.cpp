// Kernels of two sources, and losses.
#include "mps/kernel_description.h"

namespace traingraph::mps {
namespace {

using Parameters = CNNArithmeticParameters;

template <class K, class T>
void describe_parameter(OldDescribing<K>& arithmetic, const char* name, T Parameters::* member) {
  arithmetic.property(
      name, [member](const K& kernel) { return kernel.parameters().*member; },
      [member](K& kernel, const T& value) {
        Parameters parameters = kernel.parameters();
        parameters.*member = value;
        kernel.set_parameters(parameters);
      });
}

template <class K>
void describe_stride(OldDescribing<K>& arithmetic, const char* name,
                     BroadcastStrides Parameters::* strides,
                     std::int64_t BroadcastStrides::* axis) {
  arithmetic.property(
      name, [=](const K& kernel) { return kernel.parameters().*strides.*axis; },
      [=](K& kernel, std::int64_t value) {
        Parameters parameters = kernel.parameters();
        parameters.*strides.*axis = value;
        kernel.set_parameters(parameters);
      });
}

template <class K>
void describe_parameters(OldDescribing<K>& arithmetic) {
  using P = Parameters;
  using S = BroadcastStrides;
  constexpr auto kSecondary = &P::secondary_strides;
  describe_parameter(arithmetic, "primary_scale", &P::primary_scale);
  describe_parameter(arithmetic, "secondary_scale", &P::secondary_scale);
  describe_parameter(arithmetic, "bias", &P::bias);
  describe_parameter(arithmetic, "minimum_value", &P::minimum_value);
  describe_parameter(arithmetic, "maximum_value", &P::maximum_value);
  describe_stride(arithmetic, "secondary_stride_in_pixels_x", kSecondary, &S::x);
  describe_stride(arithmetic, "secondary_stride_in_pixels_y", kSecondary, &S::y);
  describe_stride(arithmetic, "secondary_stride_in_feature_channels", kSecondary,
                  &S::feature_channels);
}

void describe_forward(KernelTable& table, const std::string& kind,
                      CNNArithmeticOperation operation) {
  using P = Parameters;
  using S = BroadcastStrides;
  constexpr auto kPrimary = &P::primary_strides;
  OldDescribing<CNNArithmetic> forward(table, kind);
  describe_parameters(forward);
  describe_stride(forward, "primary_stride_in_pixels_x", kPrimary, &S::x);
  describe_stride(forward, "primary_stride_in_pixels_y", kPrimary, &S::y);
  describe_stride(forward, "primary_stride_in_feature_channels", kPrimary, &S::feature_channels);
  if (operation == CNNArithmeticOperation::kCompare) {
    describe_parameter(forward, "comparison_type", &P::comparison);
    describe_parameter(forward, "threshold", &P::threshold);
  }
  forward.made_by([operation](const Device& device, const KernelArguments&) {
    return std::make_shared<CNNArithmetic>(device, operation);
  });
}

void describe_pair(KernelTable& table, const std::string& kind, CNNArithmeticOperation operation) {
  constexpr const char* kSecondary = "is_secondary_source_filter";
  describe_forward(table, kind, operation);
  OldDescribing<CNNArithmeticGradient> gradient(table, kind + "Gradient");
  describe_parameters(gradient);
  gradient.argument(kSecondary, &CNNArithmeticGradient::is_secondary_source_filter)
      .made_by([operation](const Device& device, const KernelArguments& given) {
        return std::make_shared<CNNArithmeticGradient>(device, operation,
                                                       given.get<bool>(kSecondary));
      });
}

template <class K>
OldDescribing<K> describe_loss(KernelTable& table, const char* kind) {
  OldDescribing<K> loss(table, kind);
  loss.argument("loss_descriptor", &K::descriptor).template made_of<CNNLossDescriptor>();
  return loss;
}

}  // namespace

void describe_arithmetic(KernelTable& table) {
  describe_pair(table, "MPSCNNAdd", CNNArithmeticOperation::kAdd);
  describe_pair(table, "MPSCNNSubtract", CNNArithmeticOperation::kSubtract);
  describe_pair(table, "MPSCNNMultiply", CNNArithmeticOperation::kMultiply);
  describe_forward(table, "MPSCNNDivide", CNNArithmeticOperation::kDivide);
  describe_forward(table, "MPSNNCompare", CNNArithmeticOperation::kCompare);
  describe_loss<CNNLoss>(table, "MPSCNNLoss")
      .property("header_formula", &CNNLoss::header_formula, &CNNLoss::set_header_formula)
      .property("makes_temporary_images", &CNNLoss::makes_temporary_images);
  describe_loss<NNForwardLoss>(table, "MPSNNForwardLoss");
  describe_loss<NNLossGradient>(table, "MPSNNLossGradient")
      .property("header_formula", &NNLossGradient::header_formula,
                &NNLossGradient::set_header_formula)
      .property("compute_label_gradients", &NNLossGradient::compute_label_gradients,
                &NNLossGradient::set_compute_label_gradients);
  OldDescribing<NNInitialGradient>(table, "MPSNNInitialGradient").made_of<>();
}

}  // namespace traingraph::mps
