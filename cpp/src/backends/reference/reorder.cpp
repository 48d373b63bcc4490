#include <cstring>

#include "backends/reference/call.h"

namespace traingraph::reference {
namespace {

// Where element `index` of a tensor lies in a layout.
std::int64_t offset_of(const std::int64_t* index, const std::vector<ir::PhysicalDimension>& where,
                       std::size_t rank) {
  // Innermost block first: what is left of each axis's index after its inner blocks.
  std::int64_t rest[8];
  for (std::size_t axis = 0; axis < rank; ++axis) rest[axis] = index[axis];
  std::int64_t offset = 0;
  for (std::size_t k = where.size(); k-- > 0;) {
    std::int64_t& left = rest[where[k].axis];
    const bool block = k >= rank;
    offset += (block ? left % where[k].extent : left) * where[k].stride;
    if (block) left /= where[k].extent;
  }
  return offset;
}

}  // namespace

// The same tensor from one layout to another; padding becomes zero.
template <class T>
void reorder(const Call& call) {
  const Shape& shape = call.out_shape(0);
  const auto from = ir::physical_dimensions(shape, call.input_layouts[0]);
  const auto to = ir::physical_dimensions(shape, call.output_layouts[0]);
  T* y = call.out<T>(0);
  if (ir::has_padding(shape, call.output_layouts[0])) {
    std::memset(y, 0, ir::storage_bytes(call.outputs[0], call.output_layouts[0]));
  }
  std::int64_t index[8] = {};
  const std::int64_t count = element_count(shape);
  for (std::int64_t element = 0; element < count; ++element) {
    y[offset_of(index, to, shape.size())] = call.in<T>(0)[offset_of(index, from, shape.size())];
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
}

template void reorder<std::uint8_t>(const Call&);
template void reorder<float>(const Call&);
template void reorder<double>(const Call&);

// A view: the planner gives result and source the same bytes, so nothing runs.
template <class T>
void reshape(const Call&) {}

template void reshape<float>(const Call&);
template void reshape<double>(const Call&);

}  // namespace traingraph::reference
