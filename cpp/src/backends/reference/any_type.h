#pragma once

#include <cstdint>

#include "backends/reference/call.h"
#include "backends/reference/widened.h"

// Ops that take operands of every data type. Where they only move elements, those of 16 bits are
// moved as they are.
namespace traingraph::reference {

// Walks through a result in row-major order, with the place in each operand that is broadcast to
// its shape.
class BroadcastOffsets {
 public:
  explicit BroadcastOffsets(const Call& call)
      : call_(call), shape_(call.out_shape(0)), count_(element_count(shape_)) {}

  std::int64_t count() const { return count_; }
  std::int64_t offset(std::size_t i) const {
    const Shape& source = call_.in_shape(i);
    std::int64_t offset = 0;
    for (std::size_t k = 0; k < source.size(); ++k) {
      const std::int64_t at = source[k] == 1 ? 0 : index_[shape_.size() - source.size() + k];
      offset = offset * source[k] + at;
    }
    return offset;
  }
  void next() {
    for (std::size_t k = shape_.size(); k-- > 0;) {
      if (++index_[k] < shape_[k]) break;
      index_[k] = 0;
    }
  }

 private:
  const Call& call_;
  const Shape& shape_;
  std::int64_t count_;
  std::int64_t index_[8] = {};
};

// Null for an op that takes floating-point numbers alone.
Compute any_type_loops(ir::Op op, DataType type);

// An op's loops, instantiated for each type of element; those of 16 bits for their bits.
#define TRAINGRAPH_FOR_ANY_TYPE(op)             \
  template void op<float>(const Call&);         \
  template void op<double>(const Call&);        \
  template void op<std::int8_t>(const Call&);   \
  template void op<std::uint8_t>(const Call&);  \
  template void op<std::uint16_t>(const Call&); \
  template void op<std::int32_t>(const Call&);  \
  template void op<std::int64_t>(const Call&);  \
  template void op<bool>(const Call&);

}  // namespace traingraph::reference
