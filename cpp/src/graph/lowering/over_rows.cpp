// Follows means and sums over the batch from layer to layer.
#include "graph/lowering/over_rows.h"

#include <algorithm>
#include <utility>

#include <traingraph/arithmetic.h>
#include <traingraph/data_movement.h>
#include <traingraph/loss.h>
#include <traingraph/reduction.h>

namespace traingraph {
namespace {

using enum OverRows;

// Row by row where all sources are, or are alike.
OverRows by_rows(const std::vector<OverRows>& sources) {
  if (std::ranges::any_of(sources, [](OverRows of) { return of != alike && of != each; })) {
    return other;
  }
  return std::ranges::count(sources, each) > 0 ? each : alike;
}

OverRows of_reduction(ReductionType type, OverRows rows) {
  if (rows != each) return rows == alike ? alike : other;
  if (type == ReductionType::kNone) return each;
  if (type == ReductionType::kMean) return mean;
  return type == ReductionType::kSum ? sum : other;
}

OverRows of_reduction(const Reduction& layer, OverRows source) {
  const auto is_batch = [](std::int64_t axis) { return axis == 0; };
  if (std::ranges::any_of(layer.dimensions(), is_batch)) {
    return of_reduction(layer.reduction_type(), source);
  }
  return by_rows({source});
}

OverRows of_sum(OverRows a, OverRows b) {
  if (a == b) return a;
  if (b == alike) std::swap(a, b);
  // What is alike would be added once for each rank.
  return a == alike && b != sum ? b : other;
}

OverRows of_arithmetic(ArithmeticOperation operation, const std::vector<OverRows>& sources) {
  using enum ArithmeticOperation;
  switch (operation) {
    case kAdd:
    case kSubtract:
      return of_sum(sources[0], sources[1]);
    case kMultiply:
    case kMultiplyNoNaN:
      if (sources[0] == alike) return sources[1];
      [[fallthrough]];
    case kDivide:
    case kDivideNoNaN:
      return sources[1] == alike ? sources[0] : by_rows(sources);
    default:
      return by_rows(sources);
  }
}

}  // namespace

OverRows over_rows(const Layer& layer, const std::vector<OverRows>& sources) {
  if (dynamic_cast<const ExpressionLoss*>(&layer) != nullptr) {
    return sources[0] == mean ? mean : of_reduction(ReductionType::kMean, sources[0]);
  }
  if (const auto* loss = dynamic_cast<const Loss*>(&layer)) {
    return of_reduction(loss->descriptor().reduction, by_rows(sources));
  }
  if (const auto* reduction = dynamic_cast<const Reduction*>(&layer)) {
    return of_reduction(*reduction, sources[0]);
  }
  if (const auto* arithmetic = dynamic_cast<const Arithmetic*>(&layer)) {
    return of_arithmetic(arithmetic->operation(), sources);
  }
  if (dynamic_cast<const Reshape*>(&layer) != nullptr) return sources[0];
  return by_rows(sources);
}

}  // namespace traingraph
