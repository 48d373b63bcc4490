#include "graph/fit/label_values.h"

#include <algorithm>

#include <traingraph/errors.h>

#include "ir/number_text.h"

namespace traingraph {
namespace {

// The first label that is none; `count` if there is no such one.
template <class T, class F>
std::int64_t first_of(const TensorData& data, const F& is_label) {
  const T* const from = static_cast<const T*>(data.bytes);
  const T* const end = from + element_count(data.shape);
  return std::find_if(from, end, [&](T value) { return !is_label(static_cast<double>(value)); }) -
         from;
}

template <class T, class F>
void check_array(const std::string& name, const TensorData& data, const std::string& expected,
                 const std::string& call, const F& is_label) {
  const std::int64_t at = first_of<T>(data, is_label);
  if (at == element_count(data.shape)) return;
  const auto value = static_cast<double>(static_cast<const T*>(data.bytes)[at]);
  const std::int64_t per_sample = element_count(data.shape) / data.shape[0];
  throw InvalidArgument(call + " expected labels '" + name + "' " + expected + " but got " +
                        short_text(value) + " in sample " + std::to_string(at / per_sample) +
                        (value == -1 ? "; (labels + 1) / 2 has 0 for -1" : ""));
}

}  // namespace

void check_label_values(const NamedData& labels, LossType type, const std::string& call) {
  const bool is_hinge = type == LossType::kHinge;
  if (!is_hinge && type != LossType::kSigmoidCrossEntropy) return;
  const std::string expected = is_hinge ? "of 0 and 1, as the hinge loss has here,"
                                        : "from 0 to 1, as sigmoid cross entropy has,";
  const auto is_label = [is_hinge](double value) {
    return is_hinge ? value == 0 || value == 1 : value >= 0 && value <= 1;
  };
  for (const auto& [name, data] : labels) {
    if (data.gpu >= 0 || data.shape.empty() || element_count(data.shape) == 0) continue;
    if (data.data_type == DataType::kFloat32) {
      check_array<float>(name, data, expected, call, is_label);
    } else if (data.data_type == DataType::kFloat64) {
      check_array<double>(name, data, expected, call, is_label);
    }
  }
}

}  // namespace traingraph
