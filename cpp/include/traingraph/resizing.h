// Layers that change extents: `Slice`, `Pad` and `Upsample`.
#pragma once

#include <traingraph/layer.h>

namespace traingraph {

// Elements start … end - 1 of each axis, every stride-th of them. The rank stays.
class TRAINGRAPH_API Slice final : public Layer {
 public:
  static const ClassDescription& class_description();
  // Without strides they are 1. Raises InvalidArgument for lists of other lengths, a negative
  // start, an end that is not behind it and strides below 1.
  Slice(Shape start, Shape end, Shape stride = {});
  const Shape& start() const { return start_; }
  const Shape& end() const { return end_; }
  // Empty: 1 everywhere.
  const Shape& stride() const { return stride_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  Shape start_, end_, stride_;
};

enum class PaddingType : int { kZero = 0, kReflect = 1, kSymmetric = 2, kConstant = 3 };

// More rows and columns around images (…, H, W). kReflect mirrors without the edge, kSymmetric with
// it.
class TRAINGRAPH_API Pad final : public Layer {
 public:
  static const ClassDescription& class_description();
  // One size for all sides, or left and right, or top, bottom, left and right.
  Pad(PaddingType padding_type, const Shape& sizes, float constant_value = 0);
  PaddingType padding_type() const { return padding_type_; }
  std::int64_t padding_top() const { return top_; }
  std::int64_t padding_bottom() const { return bottom_; }
  std::int64_t padding_left() const { return left_; }
  std::int64_t padding_right() const { return right_; }
  // Top, bottom, left, right.
  Shape sizes() const { return {top_, bottom_, left_, right_}; }
  float constant_value() const { return constant_value_; }
  // Another one, which belongs to no graph.
  LayerPtr copy() const;
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  PaddingType padding_type_;
  std::int64_t top_ = 0, bottom_ = 0, left_ = 0, right_ = 0;
  float constant_value_;
};

enum class SampleMode : int { kNearest = 0, kLinear = 1 };

// The last axis, or the last two, with more elements: the nearest, or linear interpolation.
class TRAINGRAPH_API Upsample final : public Layer {
 public:
  static const ClassDescription& class_description();
  // The result's width, or its height and width.
  explicit Upsample(Shape shape, SampleMode sample_mode = SampleMode::kNearest,
                    bool aligns_corners = false);
  const Shape& shape() const { return shape_; }
  SampleMode sample_mode() const { return sample_mode_; }
  bool aligns_corners() const { return aligns_corners_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  Shape shape_;
  SampleMode sample_mode_;
  bool aligns_corners_;
};

}  // namespace traingraph
