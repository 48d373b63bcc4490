#include "graph/state_numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "graph/loss_scaling.h"
#include "runtime/number_text.h"

namespace traingraph {
namespace {

// float64 holds every count up to this one, and no run gets there.
constexpr double kMostSteps = 9007199254740992.0;  // 2^53

struct Range {
  std::string_view name;
  double least;
  double most;
  bool is_whole;
};
constexpr std::array<Range, 4> kRanges = {{
    {kTimeStep, 1, kMostSteps, true},
    {kForwardCount, 0, kMostSteps, true},
    {kLossScale, LossScaling::kLeast, LossScaling::kMost, false},
    {kGoodSteps, 0, LossScaling::kGoodSteps - 1, true},
}};

template <class T>
T value_of(const TensorData& data) {
  T value{};
  std::memcpy(&value, data.bytes, sizeof value);
  return value;
}

}  // namespace

std::string wrong_number(const std::string& name, const TensorData& data) {
  const auto* const range = std::ranges::find(kRanges, name, &Range::name);
  if (range == kRanges.end()) return {};
  const bool is_count = data.data_type == DataType::kInt64;
  const std::int64_t count = is_count ? value_of<std::int64_t>(data) : 0;
  // Counts next to the end of their range are no float64.
  const double value = !is_count ? static_cast<double>(value_of<float>(data))
                       : count > static_cast<std::int64_t>(kMostSteps)
                           ? std::numeric_limits<double>::max()
                           : static_cast<double>(count);
  // The comparisons are false for NaN.
  std::string expected;
  if (!(value >= range->least)) {
    expected = "at least " + number_text(range->least);
  } else if (!(value <= range->most)) {
    expected = "at most " + number_text(range->most);
  } else if (range->is_whole && value != std::trunc(value)) {
    expected = "a whole number";
  } else {
    return {};
  }
  const std::string got = is_count               ? std::to_string(count)
                          : std::isfinite(value) ? number_text(value)
                                                 : std::to_string(value);
  return "expected " + expected + " but got " + got;
}

}  // namespace traingraph
