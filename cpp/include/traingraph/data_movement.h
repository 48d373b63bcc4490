#pragma once

#include <traingraph/layer.h>

namespace traingraph {

// Joins sources along `dimension`; the other extents agree.
class TRAINGRAPH_API Concatenation final : public Layer {
 public:
  static const ClassDescription& class_description();
  explicit Concatenation(std::int64_t dimension = 1);
  std::int64_t dimension() const { return dimension_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  std::int64_t dimension_;
};

// The same elements in row-major order under another shape of as many elements; one extent may be
// -1, which is what is left of them.
class TRAINGRAPH_API Reshape final : public Layer {
 public:
  static const ClassDescription& class_description();
  explicit Reshape(Shape shape);
  const Shape& shape() const { return shape_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  Shape shape_;
};

// Axis k of the result is axis dimensions[k] of the source.
class TRAINGRAPH_API Transpose final : public Layer {
 public:
  static const ClassDescription& class_description();
  explicit Transpose(std::vector<std::int64_t> dimensions);
  const std::vector<std::int64_t>& dimensions() const { return dimensions_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  std::vector<std::int64_t> dimensions_;
};

}  // namespace traingraph
