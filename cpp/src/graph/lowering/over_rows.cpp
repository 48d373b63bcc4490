// Follows means and sums over the batch from layer to layer.
#include "graph/lowering/over_rows.h"

#include <algorithm>
#include <array>
#include <numeric>

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

// Over the batch, alone or among other axes.
OverRows over_batch(ReductionType type, OverRows source) {
  const bool is_mean = type == ReductionType::kMean, is_sum = type == ReductionType::kSum;
  if (source == alike) return alike;
  if (source == each) return is_mean ? mean : is_sum ? sum : other;
  if (source == mixed) return is_mean ? mean : other;
  // One number already.
  return is_mean || is_sum ? source : other;
}

OverRows of_reduction(const Reduction& layer, OverRows source) {
  const ReductionType type = layer.reduction_type();
  if (std::ranges::count(layer.dimensions(), 0) > 0) return over_batch(type, source);
  const bool is_linear = type == ReductionType::kMean || type == ReductionType::kSum;
  return is_linear ? source : by_rows({source});
}

OverRows of_sum(OverRows a, OverRows b) {
  if (a == b) return a;
  // What is added to a sum would be added once for each rank.
  if (std::ranges::any_of(std::array{a, b}, [](OverRows k) { return k == sum || k == other; })) {
    return other;
  }
  if (a == alike) return b;
  return b == alike ? a : mixed;
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
    return sources[0] == sum ? other : over_batch(ReductionType::kMean, sources[0]);
  }
  if (const auto* loss = dynamic_cast<const Loss*>(&layer)) {
    const ReductionType type = loss->descriptor().reduction;
    return type == ReductionType::kNone ? by_rows(sources) : over_batch(type, by_rows(sources));
  }
  if (const auto* reduction = dynamic_cast<const Reduction*>(&layer)) {
    return of_reduction(*reduction, sources[0]);
  }
  if (const auto* arithmetic = dynamic_cast<const Arithmetic*>(&layer)) {
    return of_arithmetic(arithmetic->operation(), sources);
  }
  if (dynamic_cast<const Reshape*>(&layer) != nullptr) return sources[0];
  if (dynamic_cast<const Concatenation*>(&layer) != nullptr) {
    return std::accumulate(sources.begin() + 1, sources.end(), sources[0], of_sum);
  }
  return by_rows(sources);
}

}  // namespace traingraph
