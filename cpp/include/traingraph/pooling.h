#pragma once

#include <traingraph/layer.h>

namespace traingraph {

enum class PoolingType : int { kMax = 1, kAverage = 2, kL2Norm = 3 };

struct TRAINGRAPH_API PoolingDescriptor {
  static const ClassDescription& class_description();
  PoolingType type = PoolingType::kMax;
  std::int64_t kernel_height = 1;
  std::int64_t kernel_width = 1;
  std::int64_t stride_y = 0;  // 0: the kernel's height
  std::int64_t stride_x = 0;  // 0: the kernel's width
  std::int64_t dilation_y = 1;
  std::int64_t dilation_x = 1;
  PaddingPolicy padding_policy = PaddingPolicy::kSame;
  std::int64_t padding_y = 0;
  std::int64_t padding_x = 0;
  bool count_includes_padding = false;  // average only
};

// Shapes: (N, C, H, W) → (N, C, P, Q). Max: the first largest element in row-major window order
// takes the gradient. L2: square root of the sum of squares; gradient 0 where the result is 0.
class TRAINGRAPH_API Pooling final : public Layer {
 public:
  static const ClassDescription& class_description();
  explicit Pooling(PoolingDescriptor descriptor);
  const PoolingDescriptor& descriptor() const { return descriptor_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  PoolingDescriptor descriptor_;
};

}  // namespace traingraph
