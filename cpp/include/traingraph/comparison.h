#pragma once

#include <traingraph/layer.h>

namespace traingraph {

enum class ComparisonOperation : int {
  kEqual = 0,
  kNotEqual = 1,
  kLess = 2,
  kGreater = 3,
  kLessOrEqual = 4,
  kGreaterOrEqual = 5,
  kLogicalAND = 6,
  kLogicalOR = 7,
  kLogicalNOT = 8,
  kLogicalNAND = 9,
  kLogicalNOR = 10,
  kLogicalXOR = 11,
};

// Element by element to booleans. Two sources of one type, which broadcast as NumPy does; the
// logical operations take booleans, and kLogicalNOT one source.
class TRAINGRAPH_API Comparison final : public Layer {
 public:
  static const ClassDescription& class_description();
  explicit Comparison(ComparisonOperation operation);
  ComparisonOperation operation() const { return operation_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  ComparisonOperation operation_;
};

}  // namespace traingraph
