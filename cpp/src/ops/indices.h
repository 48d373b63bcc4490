#pragma once

#include <string>

#include "ops/op.h"

namespace traingraph::ops {

// Raises unless input `i` holds integers that count.
inline void expect_indices(const Inference& in, std::size_t i) {
  const DataType type = in.type(i).data_type;
  if (type == DataType::kInt32 || type == DataType::kInt64) return;
  in.fail(std::string("expected int32 or int64 indices but got ") + name(type));
}

}  // namespace traingraph::ops
