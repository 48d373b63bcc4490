#include "graph/parameter_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace traingraph {
namespace {

constexpr std::size_t kCheckedWhole = 1024;  // elements
constexpr std::size_t kDrawnElements = 64;
constexpr std::uint64_t kDirections = 4;
// Of a sum whose parts were rounded themselves, relative to it.
constexpr double kLossRounding = 8 * 0x1p-53;
constexpr std::uint64_t kShakes = 3;
// Of the type, in one of these.
constexpr double kShakenRoundings = 4;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Shape indices_of(const Shape& shape, std::int64_t element) {
  Shape result(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    result[axis] = element % shape[axis];
    element /= shape[axis];
  }
  return result;
}

// NaN is worse than anything.
bool is_worse(double a, double b) { return !(a <= b); }

}  // namespace

double ParameterCheck::Compared::deviation() const { return std::abs(slope - gradient); }

ParameterCheck::ParameterCheck(Float64Loss& whole, const Tensor& tensor,
                               std::vector<double> gradient, Tolerance tolerance)
    : whole_(whole),
      tolerance_(tolerance),
      shape_(tensor.descriptor().shape),
      gradient_(std::move(gradient)),
      loss_(std::make_unique<LossOfParameter>(whole, tensor)) {
  gradient_.resize(static_cast<std::size_t>(element_count(shape_)), 0);
  list();
  if (!loss_->matters()) return;
  start();
  for (double element : middle_) noise_ += kLossRounding * std::abs(element);
  resolution_ = noise_ / kDifferenceSteps[1];
  for (Compared& one : compared_) one.slope = one.usual = quotients(one, kUsualStep).central;
  vanishes_ = largest_slope() <= 64 * resolution_ && is_flat();
  while (!vanishes_ && (refine() || excuse_rounding())) {
  }
  loss_ = nullptr;
}

void ParameterCheck::list() {
  const std::size_t count = gradient_.size();
  std::set<std::size_t> elements;
  if (count <= kCheckedWhole) {
    for (std::size_t k = 0; k < count; ++k) elements.insert(k);
  } else {
    std::size_t largest = 0;
    for (std::size_t k = 1; k < count; ++k) {
      if (is_worse(std::abs(gradient_[k]), std::abs(gradient_[largest]))) largest = k;
      if (std::isnan(gradient_[largest])) break;
    }
    elements.insert(largest);
    for (std::uint64_t k = 0; elements.size() < kDrawnElements; k += 2) {
      const std::uint64_t high = drawn_word(0, k);
      elements.insert((high << 32 | drawn_word(0, k + 1)) % count);
    }
  }
  for (std::size_t element : elements) {
    Compared& one = compared_.emplace_back();
    one.element = static_cast<std::int64_t>(element);
    one.gradient = gradient_[element];
  }
  for (std::uint64_t k = 1; count > kCheckedWhole && k <= kDirections; ++k) {
    Compared& one = compared_.emplace_back();
    one.direction = k;
    for (std::size_t e = 0; e < count; ++e) {
      one.gradient += gradient_[e] * sign_at(k, e) * entry_size();
    }
  }
}

double ParameterCheck::sign_at(std::uint64_t direction, std::size_t element) {
  return (drawn_word(direction, element) & 1) != 0 ? 1 : -1;
}

double ParameterCheck::entry_size() const {
  return 1 / std::sqrt(static_cast<double>(gradient_.size()));
}

double ParameterCheck::largest_slope() const {
  double largest = 0;
  for (const Compared& one : compared_) {
    if (one.element >= 0 && !one.excluded) largest = std::max(largest, std::abs(one.slope));
  }
  return largest;
}

double ParameterCheck::allowed(double scale) const {
  return std::max(tolerance_.bound * scale, 8 * resolution_);
}

void ParameterCheck::start() {
  loss_->start();
  home_ = loss_->parameter();
  middle_ = loss_->elements();
}

LossElements ParameterCheck::moved(const Compared& one, double by, double& distance) {
  interruption_.check();
  std::vector<double>& at = loss_->parameter();
  distance = by;
  if (one.element >= 0) {
    const auto e = static_cast<std::size_t>(one.element);
    at[e] += by;
    distance = at[e] - home_[e];
  } else {
    for (std::size_t e = 0; e < at.size(); ++e)
      at[e] += by * sign_at(one.direction, e) * entry_size();
  }
  LossElements result = loss_->elements();
  std::copy(home_.begin(), home_.end(), at.begin());  // the program reads it where it lies
  return result;
}

// A large element moves farther.
Quotients ParameterCheck::quotients(const Compared& one, double step) {
  double size = 1;
  if (one.element >= 0)
    size = std::max(1.0, std::abs(home_[static_cast<std::size_t>(one.element)]));
  double right = 0, left = 0, rise = 0, turn = 0;
  const LossElements high = moved(one, step * size, right);
  const LossElements low = moved(one, -step * size, left);
  for (std::size_t k = 0; k < middle_.size(); ++k) {
    rise += high[k] - low[k];
    turn += (high[k] - middle_[k]) - (middle_[k] - low[k]);
  }
  return {rise / (right - left), turn / right};
}

bool ParameterCheck::is_flat() {
  std::vector<double> slopes;
  double largest = 0;
  for (const Compared& one : compared_) {
    slopes.push_back(quotients(one, kLargestStep).central);
    if (is_worse(std::abs(slopes.back()), largest)) largest = std::abs(slopes.back());
  }
  if (is_worse(largest, 4 * resolution_)) return false;
  for (std::size_t k = 0; k < slopes.size(); ++k) compared_[k].slope = slopes[k];
  return true;
}

bool ParameterCheck::refine() {
  double limit = allowed(largest_slope());
  bool changed = false;
  for (Compared& one : compared_) {
    if (one.refined || !is_worse(one.deviation(), limit)) continue;
    const Slope slope = best_slope([&](double step) { return quotients(one, step); }, noise_);
    one.refined = changed = true;
    one.doubt = slope.doubt;
    if (std::isfinite(slope.doubt)) one.slope = slope.value;
  }
  limit = allowed(largest_slope());
  for (Compared& one : compared_) {
    const double deviation = one.deviation();
    if (!one.refined || one.excluded || !std::isfinite(deviation) || deviation <= limit) continue;
    if (one.doubt <= limit / 4 || deviation > 64 * one.doubt) continue;
    one.excluded = changed = true;
  }
  return changed;
}

bool ParameterCheck::excuse_rounding() {
  if (tolerance_.rounding == 0 || is_shaken_) return false;
  is_shaken_ = true;
  const double limit = allowed(largest_slope());
  std::vector<Compared*> off;
  for (Compared& one : compared_) {
    const double deviation = one.deviation();
    if (!one.excluded && std::isfinite(deviation) && deviation > limit) off.push_back(&one);
  }
  if (off.empty()) return false;
  std::vector<double> changes(off.size(), 0);
  for (std::uint64_t draw = 1; draw <= kShakes; ++draw) {
    whole_.shake(kShakenRoundings * tolerance_.rounding, draw);
    start();
    for (std::size_t k = 0; k < off.size(); ++k) {
      const double change = std::abs(quotients(*off[k], kUsualStep).central - off[k]->usual);
      if (std::isfinite(change)) changes[k] = std::max(changes[k], change);
    }
  }
  whole_.shake(0, 0);
  start();
  bool changed = false;
  for (std::size_t k = 0; k < off.size(); ++k) {
    if (off[k]->deviation() > 4 * changes[k]) continue;
    off[k]->excluded = changed = true;
  }
  return changed;
}

GradientRow ParameterCheck::row(double beside) const {
  GradientRow row;
  const double scale = vanishes_ ? beside : largest_slope();
  const Compared* worst = nullptr;
  for (const Compared& one : compared_) {
    if (one.excluded) {
      ++row.excluded;
      continue;
    }
    ++row.compared;
    if (worst == nullptr || is_worse(one.deviation(), worst->deviation())) worst = &one;
  }
  row.bound = tolerance_.bound;
  row.error = kInfinity;
  // Elements are excluded one and all.
  if (worst == nullptr || scale == 0) return row;
  row.bound = allowed(scale) / scale;
  row.gradient = worst->gradient;
  row.difference = worst->slope;
  if (worst->element >= 0) row.worst_element = indices_of(shape_, worst->element);
  if (std::isfinite(worst->deviation())) row.error = worst->deviation() / scale;
  row.ok = row.error <= row.bound;
  return row;
}

}  // namespace traingraph
