#include "runtime/layout_copy.h"

#include <cstring>

namespace traingraph {
namespace {

// Where element `index` of a tensor lies.
std::int64_t offset_of(const Shape& index, const std::vector<ir::PhysicalDimension>& dimensions) {
  Shape rest(index);
  std::int64_t offset = 0;
  for (std::size_t k = dimensions.size(); k-- > 0;) {
    const ir::PhysicalDimension& d = dimensions[k];
    std::int64_t& left = rest[static_cast<std::size_t>(d.axis)];
    const bool block = k >= index.size();
    offset += (block ? left % d.extent : left) * d.stride;
    if (block) left /= d.extent;
  }
  return offset;
}

}  // namespace

void copy_between_layouts(const ir::Type& type, const ir::Layout& from, const std::byte* source,
                          const ir::Layout& to, std::byte* target) {
  if (from == to) {
    std::memcpy(target, source, ir::storage_bytes(type, from));
    return;
  }
  const std::size_t bytes = element_bytes(type.data_type);
  const auto in = ir::physical_dimensions(type.shape, from);
  const auto out = ir::physical_dimensions(type.shape, to);
  if (ir::has_padding(type.shape, to)) std::memset(target, 0, ir::storage_bytes(type, to));
  Shape index(type.shape.size(), 0);
  for (std::int64_t element = 0; element < type.elements(); ++element) {
    std::memcpy(target + static_cast<std::size_t>(offset_of(index, out)) * bytes,
                source + static_cast<std::size_t>(offset_of(index, in)) * bytes, bytes);
    for (std::size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < type.shape[axis]) break;
      index[axis] = 0;
    }
  }
}

}  // namespace traingraph
