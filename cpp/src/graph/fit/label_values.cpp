#include "graph/fit/label_values.h"

#include <algorithm>

#include <traingraph/errors.h>

namespace traingraph {
namespace {

// Whether all numbers are -1 and 1, and some are -1.
template <class T>
bool has_signs(const TensorData& data) {
  const T* const from = static_cast<const T*>(data.bytes);
  const T* const end = from + element_count(data.shape);
  const bool are_signs = std::all_of(from, end, [](T x) { return x == T(1) || x == T(-1); });
  return are_signs && std::find(from, end, T(-1)) != end;
}

}  // namespace

void check_label_values(const NamedData& labels, LossType type, const std::string& call) {
  if (type != LossType::kHinge && type != LossType::kSigmoidCrossEntropy) return;
  for (const auto& [name, data] : labels) {
    if (data.gpu >= 0) continue;
    const bool are_signs = (data.data_type == DataType::kFloat32 && has_signs<float>(data)) ||
                           (data.data_type == DataType::kFloat64 && has_signs<double>(data));
    if (!are_signs) continue;
    throw InvalidArgument(call + " expected labels '" + name +
                          "' of 0 and 1, as this loss has here, but got -1 and 1; pass (labels + "
                          "1) / 2");
  }
}

}  // namespace traingraph
