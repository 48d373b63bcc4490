#pragma once

#include <traingraph/layer.h>

namespace traingraph {

// Reduces axes, which stay with extent 1. Places of kArgMax and kArgMin are float32 numbers, along
// one axis; of equals the first one counts.
class TRAINGRAPH_API Reduction final : public Layer {
 public:
  static const ClassDescription& class_description();
  Reduction(ReductionType reduction_type, std::int64_t dimension);
  // Raises InvalidArgument for kNone, for no axis, one twice, and places along several.
  Reduction(ReductionType reduction_type, Shape dimensions);
  ReductionType reduction_type() const { return reduction_type_; }
  // The first of them.
  std::int64_t dimension() const { return dimensions_[0]; }
  const Shape& dimensions() const { return dimensions_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  ReductionType reduction_type_;
  Shape dimensions_;
};

// x (N, C, H, W) → y (N, C, 1, C): y[n, c, 0, f] = scale times the sum of x[n, f] x[n, c].
class TRAINGRAPH_API GramMatrix final : public Layer {
 public:
  static const ClassDescription& class_description();
  explicit GramMatrix(float scale);
  float scale() const { return scale_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  float scale_;
};

}  // namespace traingraph
