// The comparison layer: comparisons and logical operations with broadcasting, to booleans.
#include <traingraph/comparison.h>
#include <traingraph/describe.h>
#include <traingraph/errors.h>

#include "layers/checks.h"

namespace traingraph {
namespace {

// By ComparisonOperation, whose numbers ir::Comparison has.
constexpr const char* kComparisonNames[] = {
    "Equal",       "Not Equal",  "Less",        "Greater",      "Less or Equal", "Greater or Equal",
    "Logical AND", "Logical OR", "Logical NOT", "Logical NAND", "Logical NOR",   "Logical XOR"};
constexpr int kComparisonCount = sizeof(kComparisonNames) / sizeof(kComparisonNames[0]);
static_assert(static_cast<int>(ir::Comparison::logical_xor) ==
              static_cast<int>(ComparisonOperation::kLogicalXOR));

}  // namespace

Comparison::Comparison(ComparisonOperation operation) : Layer("Compare"), operation_(operation) {
  const int index = static_cast<int>(operation);
  if (index < 0 || index >= kComparisonCount) {
    throw InvalidArgument("[Compare] expected an operation from 0 to " +
                          std::to_string(kComparisonCount - 1) + " but got " +
                          std::to_string(index));
  }
}

std::string Comparison::description() const {
  return std::string("Compare ") + kComparisonNames[static_cast<int>(operation_)];
}

// x [, y] (…) broadcast against each other → bool (…).
void Comparison::emit(Emitter& e) const {
  e.expect_sources(operation_ == ComparisonOperation::kLogicalNOT ? 1 : 2);
  const DataType type = e.type(0).data_type;
  if (operation_ >= ComparisonOperation::kLogicalAND && type != DataType::kBoolean) {
    throw DataTypeError(
        layer_message(e, std::string("expected a source of bool but got ") + name(type)));
  }
  const DataType other = e.type(e.sources.size() - 1).data_type;
  if (other != type) {
    throw DataTypeError(layer_message(e, std::string("expected two sources of one type but got ") +
                                             name(type) + " and " + name(other)));
  }
  e.result(ops::apply1(e.graph, ir::Op::compare,
                       ir::CompareAttributes{static_cast<ir::Comparison>(operation_)}, e.sources));
}

const ClassDescription& Comparison::class_description() {
  static const ClassDescription description =
      Describing<Comparison, Layer>("MLCComparisonLayer", "Compares sources element by element.")
          .argument("operation", &Comparison::operation, "The relation that is tested.")
          .made_of<ComparisonOperation>(
              "Shapes: two sources, which broadcast as NumPy does; LOGICAL_NOT takes one. Types: "
              "two "
              "of one type, any; of the logical operations bool. The result is bool. Formula: the "
              "relation of x and y; every relation with NaN but NOT_EQUAL is false. Gradient: none "
              "flows. Errors: TypeError for sources of two types, or others than bool of a logical "
              "operation, ValueError for shapes that do not broadcast. Source: "
              "developer.apple.com/documentation/mlcompute/mlccomparisonlayer.")
          .sample([](DataType t) {
            return LayerSample{std::make_shared<Comparison>(ComparisonOperation::kEqual),
                               {{{2, 2}, t}, {{2, 2}, t}}};
          });
  return description;
}

}  // namespace traingraph
