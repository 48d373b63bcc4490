#pragma once

#include <cstdint>

#include <traingraph/tensor.h>
#include <traingraph/types.h>

namespace traingraph {

// What the reduction would give over all batches together; the mean for reduction none.
class LossSum {
 public:
  // Goes on from a sum of so many.
  explicit LossSum(ReductionType reduction, double sum = 0, std::int64_t count = 0)
      : reduction_(reduction), sum_(sum), count_(count) {}

  // The sum of what the batch's loss has.
  double add(const TensorData& result, std::int64_t rows);
  // What another one has.
  void add(double sum, std::int64_t count) {
    sum_ += sum;
    count_ += count;
  }
  // Of nothing yet.
  LossSum none() const { return LossSum(reduction_); }
  double value() const {
    return reduction_ == ReductionType::kSum ? sum_ : sum_ / static_cast<double>(count_);
  }
  double sum() const { return sum_; }
  std::int64_t count() const { return count_; }

 private:
  ReductionType reduction_;
  double sum_;
  std::int64_t count_;
};

}  // namespace traingraph
