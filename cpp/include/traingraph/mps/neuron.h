// CNNNeuron and CNNNeuronGradient, the activation functions and their derivatives, and
// NeuronDescriptor.
#pragma once

#include <memory>

#include <traingraph/mps/kernel.h>

namespace traingraph {
struct ClassDescription;
}

namespace traingraph::mps {

// Apple's raw values.
enum class NeuronType : int {
  kNone = 0,
  kReLU = 1,
  kLinear = 2,
  kSigmoid = 3,
  kHardSigmoid = 4,
  kTanH = 5,
  kAbsolute = 6,
  kSoftPlus = 7,
  kSoftSign = 8,
  kELU = 9,
  kPReLU = 10,
  kReLUN = 11,
  kPower = 12,
  kExponential = 13,
  kLogarithm = 14,
  kGeLU = 15,
};

// The function and its parameters; PReLU has one slope per channel in `data`.
struct TRAINGRAPH_API NeuronDescriptor {
  NeuronType type = NeuronType::kNone;
  float a = 1.0f;
  float b = 1.0f;
  float c = 1.0f;
  std::vector<float> data;
  static const ClassDescription& class_description();
  bool operator==(const NeuronDescriptor&) const = default;
};

// y = f(x), element by element. PReLU: max(x, 0) + slope min(x, 0). At kinks the functions take the
// branches of traingraph::Activation.
class TRAINGRAPH_API CNNNeuron : public CNNKernel {
 public:
  CNNNeuron(const Device& device, NeuronDescriptor descriptor, const char* kind = "MPSCNNNeuron");
  const char* kind() const override { return kind_; }
  const NeuronDescriptor& descriptor() const { return descriptor_; }

 protected:
  OperationPtr make_operation() const override;
  void check_source(const ImageDescriptor& source) const override;

 private:
  NeuronDescriptor descriptor_;
  const char* kind_;
};

// dx = dy f'(x), the exact derivative.
class TRAINGRAPH_API CNNNeuronGradient final : public CNNGradientKernel {
 public:
  CNNNeuronGradient(const Device& device, NeuronDescriptor descriptor);
  const char* kind() const override { return "MPSCNNNeuronGradient"; }
  const NeuronDescriptor& descriptor() const { return descriptor_; }
  // Apple's table in place of the derivative, for comparison: of ReLUN it has b from b on. Raises
  // Unsupported for other types, which it has right.
  bool header_formula() const { return header_formula_; }
  void set_header_formula(bool value);

 protected:
  OperationPtr make_operation() const override;

 private:
  NeuronDescriptor descriptor_;
  bool header_formula_ = false;
};

}  // namespace traingraph::mps
