// When what fit and evaluate give is the same: copies are, also with NaN in them.
#include <algorithm>
#include <cmath>

#include <traingraph/fit.h>

namespace traingraph {
namespace {

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool same(const std::optional<double>& a, const std::optional<double>& b) {
  return a.has_value() == b.has_value() && (!a || same(*a, *b));
}

}  // namespace

bool MetricValue::operator==(const MetricValue& other) const {
  return shape == other.shape &&
         std::ranges::equal(numbers, other.numbers, [](double a, double b) { return same(a, b); });
}

bool Evaluation::operator==(const Evaluation& other) const {
  return same(loss, other.loss) && same(accuracy, other.accuracy) && metrics == other.metrics;
}

bool Epoch::operator==(const Epoch& other) const {
  return number == other.number && same(loss, other.loss) && steps == other.steps &&
         seconds == other.seconds && shuffle_seed == other.shuffle_seed &&
         learning_rate == other.learning_rate && validation == other.validation;
}

}  // namespace traingraph
