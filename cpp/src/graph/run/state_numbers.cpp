// Checks the counters, loss scale and optimizer buffers that a checkpoint brings against their
// valid ranges.
#include "graph/run/state_numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include <traingraph/optimizer.h>

#include "graph/lowering/loss_scaling.h"
#include "ir/number_text.h"
#include "runtime/memory/optimizer_buffers.h"

namespace traingraph {
namespace {

// float64 holds every count up to this one, and no run gets there.
constexpr auto kMostSteps = static_cast<double>(Optimizer::kMostTimeSteps);

struct Range {
  std::string_view name;
  double least;
  double most;
  bool is_whole;
};
constexpr std::array<Range, 4> kRanges = {{
    {kTimeStep, 1, kMostSteps, true},
    {kForwardCount, 0, static_cast<double>(kMostForwardCount), true},
    {kLossScale, LossScaling::kLeast, LossScaling::kMost, false},
    {kGoodSteps, 0, LossScaling::kGoodSteps - 1, true},
}};

template <class T>
T value_of(const TensorData& data) {
  T value{};
  std::memcpy(&value, data.bytes, sizeof value);
  return value;
}

std::string text_of(double value) {
  return std::isfinite(value) ? number_text(value) : short_text(value);
}

}  // namespace

std::string wrong_number(const std::string& name, const TensorData& data) {
  const auto* const range = std::ranges::find(kRanges, name, &Range::name);
  if (range == kRanges.end()) {
    return name.starts_with(kOfOptimizer) ? wrong_buffer(name.substr(name.rfind('.') + 1), data)
                                          : "";
  }
  const bool is_count = data.data_type == DataType::kInt64;
  const std::int64_t count = is_count ? value_of<std::int64_t>(data) : 0;
  // Counts next to the end of their range are no float64.
  const double value = !is_count ? static_cast<double>(value_of<float>(data))
                       : count > Optimizer::kMostTimeSteps ? std::numeric_limits<double>::max()
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
  return "expected " + expected + " but got " + (is_count ? std::to_string(count) : text_of(value));
}

}  // namespace traingraph
