// Layers that cut or pick elements: `Split`, `Gather`, `Scatter` and `Selection`.
#pragma once

#include <traingraph/layer.h>

namespace traingraph {

// Cuts the source along `dimension`; one result per part, in order.
class TRAINGRAPH_API Split final : public Layer {
 public:
  static const ClassDescription& class_description();
  // Parts of ceil(extent / split_count), the last may be smaller; parts of 1 where there are fewer
  // elements than parts.
  explicit Split(std::int64_t split_count, std::int64_t dimension = 1);
  // Parts of these lengths, whose sum is the extent.
  explicit Split(Shape split_section_lengths, std::int64_t dimension = 1);
  std::int64_t dimension() const { return dimension_; }
  // The parts asked for.
  std::int64_t split_count() const { return split_count_; }
  // Empty when split by count.
  const Shape& split_section_lengths() const { return lengths_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  std::int64_t dimension_;
  std::int64_t split_count_;
  Shape lengths_;
};

// Sources: x, indices (int32 or int64). Indices of one axis pick slices of x along `dimension`;
// indices with as many axes as x pick element by element.
class TRAINGRAPH_API Gather final : public Layer {
 public:
  static const ClassDescription& class_description();
  explicit Gather(std::int64_t dimension);
  std::int64_t dimension() const { return dimension_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  std::int64_t dimension_;
};

// Sources: values, indices, x. The result is x with each value written (kNone; of several for one
// element the last in row-major order stays) or added (kSum) where its index says, as in Gather.
class TRAINGRAPH_API Scatter final : public Layer {
 public:
  static const ClassDescription& class_description();
  // Raises InvalidArgument for another reduction.
  explicit Scatter(std::int64_t dimension, ReductionType reduction_type);
  std::int64_t dimension() const { return dimension_; }
  ReductionType reduction_type() const { return reduction_type_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  std::int64_t dimension_;
  ReductionType reduction_type_;
};

// Sources: condition (boolean), x, y, which broadcast: x where the condition holds, else y.
class TRAINGRAPH_API Selection final : public Layer {
 public:
  static const ClassDescription& class_description();
  Selection();
  void emit(Emitter& emitter) const override;
};

}  // namespace traingraph
