// CNNLocalNormalization and its gradient kernel: local response normalization, across channels or
// spatial, and local contrast normalization.
#pragma once

#include <traingraph/mps/kernel.h>

namespace traingraph::mps {

enum class TRAINGRAPH_API LocalNormalizationType : int { kCrossChannel, kSpatial, kLocalContrast };

// What a window of N elements around each pixel, or each channel, divides it by. Beyond the image
// are zeros, and N is always the whole window.
//   cross-channel, spatial: y = x / (delta + alpha mean(x^2)) ^ beta
//   local contrast: y = pm + ps (x - p0 mean(x)) / (delta + alpha variance(x)) ^ beta
// A window reaches floor(k / 2) before its middle and floor((k - 1) / 2) behind it.
struct TRAINGRAPH_API LocalNormalization {
  LocalNormalizationType type = LocalNormalizationType::kCrossChannel;
  std::int64_t kernel_width = 5;  // channels of a cross-channel window
  std::int64_t kernel_height = 5;
  float alpha = 1;
  float beta = 5;
  float delta = 1;
  float p0 = 1;
  float pm = 0;
  float ps = 1;
  bool operator==(const LocalNormalization&) const = default;

  // With the defaults that Apple's kernel has.
  static LocalNormalization cross_channel(std::int64_t kernel_size);
  static LocalNormalization spatial(std::int64_t kernel_width, std::int64_t kernel_height);
  static LocalNormalization local_contrast(std::int64_t kernel_width, std::int64_t kernel_height);
};

class TRAINGRAPH_API CNNLocalNormalization : public CNNKernel {
 public:
  CNNLocalNormalization(const Device& device, const LocalNormalization& parameters);
  const char* kind() const override;
  const LocalNormalization& parameters() const { return parameters_; }
  void set_parameters(const LocalNormalization& value);

 protected:
  OperationPtr make_operation() const override;

 private:
  LocalNormalization parameters_;
};

// The exact derivative. Its parameters must be those of the forward kernel.
class TRAINGRAPH_API CNNLocalNormalizationGradient : public CNNGradientKernel {
 public:
  CNNLocalNormalizationGradient(const Device& device, const LocalNormalization& parameters);
  const char* kind() const override;
  const LocalNormalization& parameters() const { return parameters_; }
  void set_parameters(const LocalNormalization& value);
  // Apple's text in place of the derivative, for comparison: it leaves out the 1 / N of the mean
  // and, for spatial normalization, takes the divisor out of the sum; for local contrast it has the
  // middle's mean and divisor in the sum, and x - 1 for x less its mean.
  bool header_formula() const { return header_formula_; }
  void set_header_formula(bool value) { set(header_formula_, value); }

 protected:
  OperationPtr make_operation() const override;

 private:
  LocalNormalization parameters_;
  bool header_formula_ = false;
};

}  // namespace traingraph::mps
