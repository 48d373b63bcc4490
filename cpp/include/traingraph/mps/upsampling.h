// CNNUpsampling (nearest or bilinear), its gradient kernel and NNResizeBilinear, and the
// interpolation matrices that bilinear kernels multiply by.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include <traingraph/mps/kernel.h>

namespace traingraph::mps {

// How often each row and column is repeated, or between which pixels a result pixel lies.
struct TRAINGRAPH_API Upsampling {
  bool bilinear = false;
  std::int64_t scale_x = 1;
  std::int64_t scale_y = 1;
  // First and last pixels of source and result coincide; else pixel i of a result lies at i / scale
  // of the source, which ends with its last pixel.
  bool align_corners = false;
  bool operator==(const Upsampling&) const = default;
};

// Where result pixel i of `count` lies among `size` pixels of a source.
enum class PixelGrid {
  kCorners,  // i (size - 1) / (count - 1)
  kFirst,    // i size / count: the first pixels coincide
  kCenters,  // (i + 1/2) size / count - 1/2: the centers of the images do
};

// The two factors of a bilinear kernel, (count, size) for rows and for columns.
class TRAINGRAPH_API InterpolationMatrices {
 public:
  std::shared_ptr<Storage> get(const Device& device, std::int64_t size, std::int64_t count,
                               PixelGrid grid, bool wide);

 private:
  std::map<std::pair<std::int64_t, std::pair<std::int64_t, bool>>, std::shared_ptr<Storage>> known_;
};

// Whole factors of 1 or more.
class TRAINGRAPH_API CNNUpsampling : public CNNKernel {
 public:
  CNNUpsampling(const Device& device, const Upsampling& upsampling);
  const char* kind() const override;
  const Upsampling& upsampling() const { return upsampling_; }

 protected:
  OperationPtr make_operation() const override;
  ImageDescriptor result_of(const ImageDescriptor& source) const override;
  void record(CommandBuffer& buffer, const ImageBatch& sources, const StateBatch& states,
              const ImageBatch& destinations) override;
  StatePtr make_state(const ImageDescriptor& source, const CommandBuffer* on) const override;

 private:
  Upsampling upsampling_;
  InterpolationMatrices matrices_;
};

// An image of any size, between its pixels or without some of them: corner on corner, or center on
// center. There is no gradient kernel.
class TRAINGRAPH_API NNResizeBilinear final : public CNNKernel {
 public:
  NNResizeBilinear(const Device& device, std::int64_t width, std::int64_t height,
                   bool align_corners);
  const char* kind() const override { return "MPSNNResizeBilinear"; }
  std::int64_t resize_width() const { return width_; }
  std::int64_t resize_height() const { return height_; }
  bool align_corners() const { return align_corners_; }

 protected:
  OperationPtr make_operation() const override;
  ImageDescriptor result_of(const ImageDescriptor& source) const override;
  void record(CommandBuffer& buffer, const ImageBatch& sources, const StateBatch& states,
              const ImageBatch& destinations) override;

 private:
  std::int64_t width_, height_;
  bool align_corners_;
  InterpolationMatrices matrices_;
};

// nearest: dx is the sum of each block; bilinear: the interpolation transposed. align_corners comes
// with the state and is a property.
class TRAINGRAPH_API CNNUpsamplingGradient : public CNNGradientKernel {
 public:
  CNNUpsamplingGradient(const Device& device, const Upsampling& upsampling);
  const char* kind() const override;
  const Upsampling& upsampling() const { return upsampling_; }
  void set_align_corners(bool value);

 protected:
  OperationPtr make_operation() const override;
  void configure(const GradientState& state) override;
  void check_gradient(const ImageDescriptor&, const ImageDescriptor&) const override;
  void add_operands(Recording& recording, const StateBatch& states) override;

 private:
  Upsampling upsampling_;
  InterpolationMatrices matrices_;
};

}  // namespace traingraph::mps
