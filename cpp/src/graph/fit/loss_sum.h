#pragma once

#include <cstdint>

#include <traingraph/tensor.h>
#include <traingraph/types.h>

namespace traingraph {

// What the reduction would give over all batches together; the mean for reduction none.
class LossSum {
 public:
  explicit LossSum(ReductionType reduction) : reduction_(reduction) {}

  // The sum of what the batch's loss has.
  double add(const TensorData& result, std::int64_t rows);
  double value() const {
    return reduction_ == ReductionType::kSum ? sum_ : sum_ / static_cast<double>(count_);
  }

 private:
  ReductionType reduction_;
  double sum_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace traingraph
