// Checks of shapes and types in tensor descriptors, sequence lengths, strides and sizes.
#include <algorithm>

#include <traingraph/errors.h>
#include <traingraph/tensor.h>

#include "ir/extents.h"
#include "ir/type.h"

namespace traingraph {

TensorDescriptor::TensorDescriptor(Shape shape_in, DataType type)
    : shape(std::move(shape_in)), data_type(type) {
  if (element_bytes(type) == 0) {
    throw InvalidArgument("[descriptor] expected a data type with storage but got raw value " +
                          std::to_string(static_cast<int>(type)));
  }
  if (shape.empty()) throw ShapeError("[descriptor] expected at least one extent but got none");
  if (static_cast<int>(shape.size()) > kMaxTensorDimensions) {
    throw ShapeError("[descriptor] expected at most " + std::to_string(kMaxTensorDimensions) +
                     " extents but got " + to_string(shape));
  }
  for (std::int64_t extent : shape) {
    if (extent < 1) {
      throw ShapeError("[descriptor] expected extents of at least 1 but got " + to_string(shape));
    }
  }
  if (ir::can_be(shape, data_type)) return;
  throw ShapeError("[descriptor] expected a tensor of at most " + std::to_string(kMostBytes) +
                   " bytes but got " + to_string(shape) + " of " + name(data_type));
}

TensorDescriptor TensorDescriptor::of_sequences(Shape shape, Shape sequence_lengths, bool sorted,
                                                DataType type) {
  TensorDescriptor result(std::move(shape), type);
  const Shape& s = result.shape;
  const std::string lengths = to_string(sequence_lengths);
  if (s.size() != 3) {
    throw ShapeError("[descriptor] expected sequences of shape (batch, steps, features) but got " +
                     to_string(s));
  }
  if (sequence_lengths.empty() ||
      (s[0] != 1 && static_cast<std::int64_t>(sequence_lengths.size()) != s[0])) {
    throw ShapeError("[descriptor] expected " + std::to_string(s[0]) +
                     " sequence lengths, one per sequence of the batch, but got " + lengths);
  }
  for (std::int64_t length : sequence_lengths) {
    if (length >= 1 && length <= s[1]) continue;
    throw ShapeError("[descriptor] expected sequence lengths from 1 to the " +
                     std::to_string(s[1]) + " steps of " + to_string(s) + " but got " + lengths);
  }
  if (sorted && !std::is_sorted(sequence_lengths.rbegin(), sequence_lengths.rend())) {
    throw InvalidArgument("[descriptor] expected sorted sequences to descend but got " + lengths);
  }
  result.sequence_lengths = std::move(sequence_lengths);
  result.sorted_sequences = sorted;
  return result;
}

Shape TensorDescriptor::batch_size_per_sequence_step() const {
  Shape counts;
  for (std::int64_t length : sequence_lengths) {
    if (length > static_cast<std::int64_t>(counts.size())) {
      counts.resize(static_cast<std::size_t>(length), 0);
    }
    for (std::size_t t = 0; t < static_cast<std::size_t>(length); ++t) ++counts[t];
  }
  return counts;
}

Shape TensorDescriptor::stride() const {
  Shape strides = ir::dense_strides(shape);
  for (std::int64_t& stride : strides) {
    stride = ir::product(stride, static_cast<std::int64_t>(element_bytes(data_type)));
  }
  return strides;
}

std::size_t TensorDescriptor::allocation_bytes() const {
  return ir::storage_bytes({data_type, shape, false}, {});
}

}  // namespace traingraph
