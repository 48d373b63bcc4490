#pragma once

#include <traingraph/mps/kernel.h>

namespace traingraph::mps {

enum class CNNPoolingType : int { kMax = 0, kAverage = 1, kL2Norm = 2, kDilatedMax = 3 };

// The window at position i begins at offset - floor(extent / 2) + stride i. Beyond the image: edge
// mode kZero counts zeros (an average divides by the whole window), kClamp leaves the window's rest
// out. kMax and kDilatedMax begin with kClamp, the others with kZero.
class TRAINGRAPH_API CNNPooling : public CNNKernel {
 public:
  CNNPooling(const Device& device, CNNPoolingType type, const KernelWindow& window);
  const char* kind() const override;
  CNNPoolingType type() const { return type_; }

 protected:
  OperationPtr make_operation() const override;
  bool has_window() const override { return true; }

 private:
  CNNPoolingType type_;
};

// max: dy goes to the first largest element of each window; average: dy / count to each; L2:
// dy x / y, 0 where y is 0. The secondary offset is the forward kernel's offset.
class TRAINGRAPH_API CNNPoolingGradient : public CNNGradientKernel {
 public:
  CNNPoolingGradient(const Device& device, CNNPoolingType type, const KernelWindow& window);
  const char* kind() const override;
  CNNPoolingType type() const { return type_; }

 protected:
  OperationPtr make_operation() const override;
  void check_gradient(const ImageDescriptor&, const ImageDescriptor&) const override;
  bool has_window() const override { return true; }

 private:
  CNNPoolingType type_;
};

}  // namespace traingraph::mps
