// Counts right predictions of a batch, by the largest logit or by the sign of each logit.
#include "graph/fit/accuracy.h"

#include <vector>

#include <traingraph/errors.h>

#include "runtime/numbers/half.h"

namespace traingraph {
namespace {

template <class T>
std::int64_t largest(const T* values, std::int64_t count, std::int64_t step) {
  std::int64_t best = 0;
  for (std::int64_t c = 1; c < count; ++c) {
    if (values[c * step] > values[best * step]) best = c;
  }
  return best;
}

// The class of one row: -1 where the label says to ignore it.
template <class T>
std::int64_t class_of(const TensorData& labels, std::int64_t row, std::int64_t inner,
                      std::int64_t classes, std::int64_t at) {
  switch (labels.data_type) {
    case DataType::kInt32:
      return static_cast<const std::int32_t*>(labels.bytes)[row * inner + at];
    case DataType::kInt64:
      return static_cast<const std::int64_t*>(labels.bytes)[row * inner + at];
    default:
      return largest(static_cast<const T*>(labels.bytes) + row * classes * inner + at, classes,
                     inner);
  }
}

template <class T>
void count_classes(Accuracy& sum, const TensorData& prediction, const TensorData& labels) {
  const std::int64_t rows = prediction.shape[0];
  const std::int64_t classes = prediction.shape.size() > 1 ? prediction.shape[1] : 1;
  const std::int64_t inner = element_count(prediction.shape) / (rows * classes);
  const T* logits = static_cast<const T*>(prediction.bytes);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t at = 0; at < inner; ++at) {
      const std::int64_t expected = class_of<T>(labels, row, inner, classes, at);
      if (expected < 0) continue;
      ++sum.all;
      sum.right += largest(logits + row * classes * inner + at, classes, inner) == expected;
    }
  }
}

template <class T>
void count_signs(Accuracy& sum, const TensorData& prediction, const TensorData& labels) {
  const T* logits = static_cast<const T*>(prediction.bytes);
  const T* expected = static_cast<const T*>(labels.bytes);
  const std::int64_t count = element_count(prediction.shape);
  for (std::int64_t i = 0; i < count; ++i) sum.right += (logits[i] > 0) == (expected[i] > T(0.5));
  sum.all += count;
}

template <class T>
void count_as(Accuracy& sum, LossType type, const TensorData& prediction,
              const TensorData& labels) {
  if (type == LossType::kSoftmaxCrossEntropy) return count_classes<T>(sum, prediction, labels);
  count_signs<T>(sum, prediction, labels);
}

// Numbers of 16 bits as float32 ones, which `numbers` holds.
TensorData widened(TensorData data, std::vector<float>& numbers) {
  if (!ir::is_half(data.data_type)) return data;
  numbers.resize(static_cast<std::size_t>(element_count(data.shape)));
  widen(data.data_type, data.bytes, numbers.data(), numbers.size());
  data.bytes = numbers.data();
  data.length = numbers.size() * sizeof(float);
  data.data_type = DataType::kFloat32;
  return data;
}

}  // namespace

void Accuracy::count(LossType type, const TensorData& narrow_prediction,
                     const TensorData& narrow_labels) {
  std::vector<float> numbers[2];
  const TensorData prediction = widened(narrow_prediction, numbers[0]);
  const TensorData labels = widened(narrow_labels, numbers[1]);
  if (prediction.data_type == DataType::kFloat64) {
    return count_as<double>(*this, type, prediction, labels);
  }
  count_as<float>(*this, type, prediction, labels);
}

}  // namespace traingraph
