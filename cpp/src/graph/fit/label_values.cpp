#include "graph/fit/label_values.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <traingraph/errors.h>

#include "ir/number_text.h"
#include "runtime/numbers/half.h"

namespace traingraph {
namespace {

struct StrayLabel {
  double number;
  std::int64_t row;
};

// The first one outside of 0 to 1; NaN is the loss's to find.
template <class T>
std::optional<StrayLabel> outside(const T* from, std::int64_t count, std::int64_t rows) {
  const T* const found = std::find_if(from, from + count, [](T x) { return x < T(0) || x > T(1); });
  if (found == from + count) return std::nullopt;
  return StrayLabel{static_cast<double>(*found), (found - from) / (count / rows)};
}

std::optional<StrayLabel> outside(const TensorData& data) {
  const std::int64_t count = element_count(data.shape),
                     rows = data.shape.empty() ? 1 : data.shape[0];
  if (data.data_type == DataType::kFloat64) {
    return outside(static_cast<const double*>(data.bytes), count, rows);
  }
  if (data.data_type == DataType::kFloat32) {
    return outside(static_cast<const float*>(data.bytes), count, rows);
  }
  if (!ir::is_half(data.data_type)) return std::nullopt;
  std::vector<float> wide(static_cast<std::size_t>(count));
  widen(data.data_type, data.bytes, wide.data(), wide.size());
  return outside(wide.data(), count, rows);
}

}  // namespace

void check_label_values(const NamedData& labels, LossType type, const std::string& call) {
  constexpr LossType kOfZeroToOne[] = {LossType::kHinge, LossType::kSigmoidCrossEntropy,
                                       LossType::kLog};
  if (std::ranges::find(kOfZeroToOne, type) == std::end(kOfZeroToOne)) return;
  for (const auto& [name, data] : labels) {
    if (data.gpu >= 0 || element_count(data.shape) == 0) continue;
    const std::optional<StrayLabel> found = outside(data);
    if (!found) continue;
    throw InvalidArgument(call + " expected labels '" + name +
                          "' from 0 to 1, as this loss has here, but got " +
                          short_text(found->number) + " in row " + std::to_string(found->row) +
                          (found->number == -1 ? "; of -1 and 1, pass (labels + 1) / 2" : ""));
  }
}

}  // namespace traingraph
