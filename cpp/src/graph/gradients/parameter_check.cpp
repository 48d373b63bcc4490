// Compares the gradient of one parameter with difference quotients, refines doubtful slopes, and
// excludes kinks and rounding.
#include "graph/gradients/parameter_check.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>

#include <traingraph/device.h>

#include "graph/gradients/in_parallel.h"

namespace traingraph {
namespace {

constexpr std::size_t kCheckedWhole = 1024;  // elements
constexpr std::size_t kDrawnElements = 64;
constexpr std::uint64_t kDirections = 4;
// Of a sum whose parts were rounded themselves, relative to it.
constexpr double kLossRounding = 8 * 0x1p-53;
constexpr std::uint64_t kFirstRounded = 100;  // of what is drawn
// What rounding changes a slope by explains so many times as much.
constexpr double kExplained = 2;
// Seconds of runs: more than making a program and a thread takes.
constexpr double kWorthAWorker = 0.02;
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

Float64Loss& RoundedLosses::rounded(std::size_t k) {
  while (rounded_.size() <= k) {
    const Shaking shaking{rounding_, kFirstRounded + rounded_.size()};
    rounded_.push_back(std::make_unique<Float64Loss>(point_, shaking));
  }
  return *rounded_[k];
}

double ParameterCheck::Compared::deviation() const { return std::abs(slope - gradient); }

ParameterCheck::ParameterCheck(RoundedLosses& losses, const TensorPtr& tensor,
                               std::vector<double> gradient, double bound)
    : losses_(losses), tensor_(tensor), bound_(bound), gradient_(std::move(gradient)) {
  gradient_.resize(static_cast<std::size_t>(element_count(tensor->descriptor().shape)), 0);
  list();
  begin(losses.exact, compared_.size());
  if (!workers_[0]->matters()) return;
  for (double element : middle_) noise_ += kLossRounding * std::abs(element);
  resolution_ = noise_ / kDifferenceSteps[1];
  std::vector<Compared*> all;
  for (Compared& one : compared_) all.push_back(&one);
  for_each(all, [&](std::size_t worker, Compared& one) {
    one.slope = one.usual = quotients(worker, one, kUsualStep).central;
  });
  vanishes_ =
      largest_slope() <= 8 * resolution_ || (largest_slope() <= 64 * resolution_ && is_flat());
  while (!vanishes_ && (refine() || explain())) {
  }
  workers_.clear();
}

void ParameterCheck::list() {
  const std::size_t count = gradient_.size();
  std::set<std::size_t> elements;
  if (count <= kCheckedWhole) {
    for (std::size_t k = 0; k < count; ++k) elements.insert(k);
  } else {
    std::size_t largest = 0;
    for (std::size_t k = 1; k < count; ++k) {
      if (std::isnan(gradient_[largest])) break;
      if (is_worse(std::abs(gradient_[k]), std::abs(gradient_[largest]))) largest = k;
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
  return std::max(bound_ * scale, 8 * resolution_);
}

void ParameterCheck::begin(Float64Loss& loss, std::size_t quotients) {
  using Clock = std::chrono::steady_clock;
  workers_.clear();
  const auto add = [&] { workers_.push_back(std::make_unique<LossOfParameter>(loss, *tensor_)); };
  add();
  if (!workers_[0]->matters()) return;
  home_ = workers_[0]->parameter();
  const Clock::time_point start = Clock::now();
  middle_ = workers_[0]->elements();
  const double all = std::chrono::duration<double>(Clock::now() - start).count() *
                     static_cast<double>(2 * quotients);
  const auto most = static_cast<std::size_t>(Platform::thread_count());
  while (workers_.size() < std::min(most, quotients) &&
         static_cast<double>(workers_.size()) * kWorthAWorker < all) {
    add();
  }
}

void ParameterCheck::for_each(const std::vector<Compared*>& some,
                              const std::function<void(std::size_t worker, Compared& one)>& work) {
  in_parallel(some.size(), workers_.size(),
              [&](std::size_t worker, std::size_t k) { work(worker, *some[k]); });
}

LossElements ParameterCheck::moved(std::size_t worker, const Compared& one, double by,
                                   double& distance) {
  std::vector<double>& at = workers_[worker]->parameter();
  distance = by;
  if (one.element >= 0) {
    const auto e = static_cast<std::size_t>(one.element);
    at[e] += by;
    distance = at[e] - home_[e];
    LossElements result = workers_[worker]->elements();
    at[e] = home_[e];
    return result;
  }
  for (std::size_t e = 0; e < at.size(); ++e)
    at[e] += by * sign_at(one.direction, e) * entry_size();
  LossElements result = workers_[worker]->elements();
  std::copy(home_.begin(), home_.end(), at.begin());  // the program reads it where it lies
  return result;
}

// A large element moves farther.
Quotients ParameterCheck::quotients(std::size_t worker, const Compared& one, double step) {
  double size = 1;
  if (one.element >= 0) {
    size = std::max(1.0, std::abs(home_[static_cast<std::size_t>(one.element)]));
  }
  double right = 0, left = 0, rise = 0, turn = 0;
  const LossElements high = moved(worker, one, step * size, right);
  const LossElements low = moved(worker, one, -step * size, left);
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
    slopes.push_back(quotients(0, one, kLargestStep).central);
    if (is_worse(std::abs(slopes.back()), largest)) largest = std::abs(slopes.back());
  }
  if (is_worse(largest, 4 * resolution_)) return false;
  for (std::size_t k = 0; k < slopes.size(); ++k) compared_[k].slope = slopes[k];
  return true;
}

bool ParameterCheck::refine() {
  double limit = allowed(largest_slope());
  std::vector<Compared*> off;
  for (Compared& one : compared_) {
    if (!one.refined && is_worse(one.deviation(), limit / 4)) off.push_back(&one);
  }
  for_each(off, [&](std::size_t worker, Compared& one) {
    const Slope slope =
        best_slope([&](double step) { return quotients(worker, one, step); }, noise_, limit / 64);
    one.refined = true;
    one.doubt = slope.doubt;
    if (std::isfinite(slope.doubt)) one.slope = slope.value;
  });
  bool changed = !off.empty();
  limit = allowed(largest_slope());
  for (Compared& one : compared_) {
    const double deviation = one.deviation();
    if (!one.refined || one.excluded || !std::isfinite(deviation) || deviation <= limit) continue;
    if (one.doubt <= limit / 4 || deviation > 64 * one.doubt) continue;
    one.excluded = changed = true;
  }
  return changed;
}

bool ParameterCheck::explain() {
  const double limit = allowed(largest_slope());
  std::vector<Compared*> off;
  for (Compared& one : compared_) {
    const double deviation = one.deviation();
    if (one.excluded || one.explained || !std::isfinite(deviation) || deviation <= limit) continue;
    one.explained = true;
    off.push_back(&one);
  }
  bool changed = false;
  for (std::size_t k = 0; k < losses_.count() && !off.empty(); ++k) {
    begin(losses_.rounded(k), off.size());
    for_each(off, [&](std::size_t worker, Compared& one) {
      const double change = std::abs(quotients(worker, one, kUsualStep).central - one.usual);
      one.excluded = one.excluded || kExplained * change >= one.deviation();
    });
  }
  if (!off.empty()) begin(losses_.exact, off.size());
  for (const Compared* one : off) changed = changed || one->excluded;
  return changed;
}

// No element can be told from 0, and what differences are in doubt about is little in the graph.
bool ParameterCheck::is_nothing_beside(double beside) const {
  if (vanishes_) return true;
  return std::all_of(compared_.begin(), compared_.end(), [&](const Compared& one) {
    return one.refined && std::abs(one.slope) <= 4 * one.doubt && one.doubt <= bound_ * beside / 4;
  });
}

GradientRow ParameterCheck::row(double beside) const {
  GradientRow row;
  const bool is_nothing = is_nothing_beside(beside);
  const double scale = is_nothing ? beside : largest_slope();
  const Compared* worst = nullptr;
  for (const Compared& one : compared_) {
    if (one.excluded && !is_nothing) {
      ++row.excluded;
      continue;
    }
    ++row.compared;
    if (worst == nullptr || is_worse(one.deviation(), worst->deviation())) worst = &one;
  }
  row.bound = bound_;
  row.error = kInfinity;
  // Elements are excluded one and all.
  if (worst == nullptr || scale == 0) return row;
  row.gradient = worst->gradient;
  row.difference = worst->slope;
  if (worst->element >= 0) {
    row.worst_element = indices_of(tensor_->descriptor().shape, worst->element);
  }
  if (std::isfinite(worst->deviation())) row.error = worst->deviation() / scale;
  if (row.error > row.bound) row.bound = std::max(bound_, 8 * resolution_ / scale);
  row.ok = row.error <= row.bound;
  return row;
}

}  // namespace traingraph
