#pragma once

#include <traingraph/mps/kernel.h>

namespace traingraph::mps {

// Over the channels of each pixel.
class TRAINGRAPH_API CNNSoftMax : public CNNKernel {
 public:
  CNNSoftMax(const Device& device, bool logarithm) : CNNKernel(device), logarithm_(logarithm) {}
  const char* kind() const override { return logarithm_ ? "MPSCNNLogSoftMax" : "MPSCNNSoftMax"; }
  bool logarithm() const { return logarithm_; }

 protected:
  OperationPtr make_operation() const override;

 private:
  bool logarithm_;
};

// The secondary image is the forward result, not its source. Softmax: dx = y (dy - sum dy y);
// logarithm: dx = dy - exp(y) sum dy. The secondary offset and channels are where the result lies
// in its image; the state says which part of the source that is.
class TRAINGRAPH_API CNNSoftMaxGradient : public CNNGradientKernel {
 public:
  CNNSoftMaxGradient(const Device& device, bool logarithm)
      : CNNGradientKernel(device), logarithm_(logarithm) {}
  const char* kind() const override {
    return logarithm_ ? "MPSCNNLogSoftMaxGradient" : "MPSCNNSoftMaxGradient";
  }

 protected:
  OperationPtr make_operation() const override;
  void configure_parts(const GradientState& state) override;
  GradientParts parts(const ImageDescriptor& gradient, const ImageDescriptor& result,
                      const GradientState& state) const override;
  ImageDescriptor secondary_of(const GradientState& state) const override;

 private:
  bool logarithm_;
};

}  // namespace traingraph::mps
