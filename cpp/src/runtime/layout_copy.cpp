#include "runtime/layout_copy.h"

#include <array>
#include <cstring>

namespace traingraph {
namespace {

using Index = std::array<std::int64_t, 8>;

// Where element `index` of a tensor of `rank` axes lies. Dimensions beyond the rank are blocks: the
// innermost takes the index modulo its extent and leaves the rest to the next.
std::size_t offset_of(Index index, std::size_t rank,
                      const std::vector<ir::PhysicalDimension>& dimensions) {
  std::int64_t offset = 0;
  for (std::size_t k = dimensions.size(); k-- > 0;) {
    const ir::PhysicalDimension& d = dimensions[k];
    std::int64_t& left = index[static_cast<std::size_t>(d.axis)];
    const bool block = k >= rank;
    offset += (block ? left % d.extent : left) * d.stride;
    if (block) left /= d.extent;
  }
  return static_cast<std::size_t>(offset);
}

}  // namespace

LayoutCopy::LayoutCopy(const ir::Type& type, const ir::Layout& from, const ir::Layout& to)
    : shape_(type.shape),
      from_(ir::physical_dimensions(type.shape, from)),
      to_(ir::physical_dimensions(type.shape, to)),
      element_bytes_(element_bytes(type.data_type)),
      target_bytes_(ir::storage_bytes(type, to)),
      same_(from == to),
      pads_(ir::has_padding(type.shape, to)) {}

void LayoutCopy::run(const std::byte* source, std::byte* target) const {
  if (same_) {
    std::memcpy(target, source, target_bytes_);
    return;
  }
  if (pads_) std::memset(target, 0, target_bytes_);
  const std::size_t rank = shape_.size();
  const std::int64_t elements = element_count(shape_);
  Index index{};
  for (std::int64_t element = 0; element < elements; ++element) {
    std::memcpy(target + offset_of(index, rank, to_) * element_bytes_,
                source + offset_of(index, rank, from_) * element_bytes_, element_bytes_);
    for (std::size_t axis = rank; axis-- > 0;) {
      if (++index[axis] < shape_[axis]) break;
      index[axis] = 0;
    }
  }
}

void copy_between_layouts(const ir::Type& type, const ir::Layout& from, const std::byte* source,
                          const ir::Layout& to, std::byte* target) {
  LayoutCopy(type, from, to).run(source, target);
}

}  // namespace traingraph
