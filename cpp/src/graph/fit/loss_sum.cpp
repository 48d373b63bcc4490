#include "graph/fit/loss_sum.h"

namespace traingraph {

double LossSum::add(const TensorData& result, std::int64_t rows) {
  const std::int64_t count = element_count(result.shape);
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    sum += result.data_type == DataType::kFloat64 ? static_cast<const double*>(result.bytes)[i]
                                                  : static_cast<const float*>(result.bytes)[i];
  }
  const bool is_mean = reduction_ == ReductionType::kMean;
  sum_ += is_mean ? static_cast<double>(rows) * sum : sum;
  count_ += is_mean ? rows : count;
  return sum;
}

}  // namespace traingraph
