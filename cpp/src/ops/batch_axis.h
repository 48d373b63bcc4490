#pragma once

#include "ir/type.h"

namespace traingraph::ops {

// Whether axis 0 of a result that its operands are broadcast to is the batch. It is where one of
// them brings a batch that is not broadcast itself: a batch of one sample over many rows of a
// constant gives these rows.
class BatchAxis {
 public:
  explicit BatchAxis(const Shape& result) : result_(result) {}

  void add(const Shape& shape, bool batched) {
    const bool leads = !shape.empty() && shape.size() == result_.size();
    const bool whole = leads && shape[0] == result_[0];
    if (batched) (whole ? is_batch_ : is_lost_) = true;
    if (!batched && leads && shape[0] != 1) has_rows_ = true;
  }
  void add(const ir::Type& type) { add(type.shape, type.batched); }

  bool is_batch() const { return is_batch_; }
  // The batch is no axis of its own any more, or meets rows of a fixed number.
  bool is_fixed() const { return is_lost_ || (is_batch_ && has_rows_); }

 private:
  const Shape& result_;
  bool is_batch_ = false;
  bool is_lost_ = false;
  bool has_rows_ = false;
};

}  // namespace traingraph::ops
