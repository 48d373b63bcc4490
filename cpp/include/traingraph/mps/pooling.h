// CNNPooling and CNNPoolingGradient: max, average, L2-norm and dilated max pooling.
#pragma once

#include <traingraph/mps/kernel.h>

namespace traingraph::mps {

enum class CNNPoolingType : int { kMax = 0, kAverage = 1, kL2Norm = 2, kDilatedMax = 3 };

// The window at position i begins at offset - floor(extent / 2) + stride i. Beyond the image: edge
// mode kZero counts zeros (an average divides by the whole window), kClamp leaves the window's rest
// out, but for the columns and rows of zeros beside the image that an average may count. kMax and
// kDilatedMax begin with kClamp, the others with kZero.
class TRAINGRAPH_API CNNPooling : public CNNKernel {
 public:
  CNNPooling(const Device& device, CNNPoolingType type, const KernelWindow& window);
  const char* kind() const override;
  CNNPoolingType type() const { return type_; }
  // Raises Unsupported for anything but an average.
  void set_zero_pad_size_x(std::int64_t value);
  void set_zero_pad_size_y(std::int64_t value);
  // An average under a policy that leaves out edges gets edge mode kClamp, as it gets an offset.
  ImageDescriptor destination_image_descriptor(const ImageDescriptor& source) override;

 protected:
  OperationPtr make_operation() const override;
  bool has_window() const override { return true; }

 private:
  CNNPoolingType type_;
};

// max: dy goes to the first largest element of each window; average: dy / count to each; L2:
// dy x / y, 0 where y is 0. The secondary offset is the forward kernel's offset: the window there
// is that of the incoming gradient's pixel at the primary offset.
class TRAINGRAPH_API CNNPoolingGradient : public CNNGradientKernel {
 public:
  CNNPoolingGradient(const Device& device, CNNPoolingType type, const KernelWindow& window);
  const char* kind() const override;
  CNNPoolingType type() const { return type_; }
  // Raises Unsupported for anything but an average.
  void set_zero_pad_size_x(std::int64_t value);
  void set_zero_pad_size_y(std::int64_t value);
  // How much of the incoming gradient counts, from the primary offset on, as far as it is there;
  // what lies beyond is taken for zeros. The origin of `size` is zero.
  const Region& source_size() const { return source_size_; }
  void set_source_size(const Region& size);

 protected:
  OperationPtr make_operation() const override;
  void check_gradient(const ImageDescriptor&, const ImageDescriptor&) const override;
  bool has_window() const override { return true; }
  bool has_gradient_offset() const override { return true; }
  bool has_kernel_offset() const override { return false; }
  GradientParts parts(const ImageDescriptor& gradient, const ImageDescriptor& source,
                      const GradientState& state) const override;

 private:
  CNNPoolingType type_;
  Region source_size_;
};

}  // namespace traingraph::mps
