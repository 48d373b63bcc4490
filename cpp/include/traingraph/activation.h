// The elementwise activation layer `Activation`, its types, and their parameters a, b, c.
#pragma once

#include <traingraph/layer.h>

namespace traingraph {

enum class ActivationType : int {
  kNone = 0,
  kReLU = 1,
  kLinear = 2,
  kSigmoid = 3,
  kHardSigmoid = 4,
  kTanh = 5,
  kAbsolute = 6,
  kSoftPlus = 7,
  kSoftSign = 8,
  kELU = 9,
  kReLUN = 10,
  kLogSigmoid = 11,
  kSELU = 12,
  kCELU = 13,
  kHardShrink = 14,
  kSoftShrink = 15,
  kTanhShrink = 16,
  kThreshold = 17,
  kGELU = 18,
  kHardSwish = 19,
  kClamp = 20,
  // Additions to ML Compute.
  kSiLU = 21,
  kGELUErf = 22,
  kMish = 23,
  kSquareplus = 24,
};

// Parameters a, b, c of the activation; what each means stands in the documentation's table.
struct TRAINGRAPH_API ActivationDescriptor {
  static const ClassDescription& class_description();
  ActivationType type = ActivationType::kNone;
  float a = 1.0f;
  float b = 1.0f;
  float c = 1.0f;

  ActivationDescriptor() = default;
  // The type's own defaults for what is not given (ReLU a 0, hard sigmoid a 0.2 b 0.5, …).
  explicit ActivationDescriptor(ActivationType type, std::optional<float> a = {},
                                std::optional<float> b = {}, std::optional<float> c = {});
};

// Shapes: any (…) → the same. The gradient reads the result where it can, else the source.
class TRAINGRAPH_API Activation final : public Layer {
 public:
  static const ClassDescription& class_description();
  explicit Activation(ActivationDescriptor descriptor);
  const ActivationDescriptor& descriptor() const { return descriptor_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  ActivationDescriptor descriptor_;
};

// "ReLU", "Hard Sigmoid", …
TRAINGRAPH_API const char* debug_description(ActivationType type);

// "relu", "hard_sigmoid", …, in the order of the types.
TRAINGRAPH_API std::vector<std::string> activation_names();

}  // namespace traingraph
