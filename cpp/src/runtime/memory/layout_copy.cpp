// Copies a tensor between two memory layouts, blocked ones included, by precomputed offsets along
// each axis.
#include "runtime/memory/layout_copy.h"

#include <cstring>

namespace traingraph {
namespace {

// Dimensions beyond the rank are blocks: the innermost takes the index modulo its extent and leaves
// the rest to the next.
std::int64_t offset_along(int axis, std::int64_t index, std::size_t rank,
                          const std::vector<ir::PhysicalDimension>& dimensions) {
  std::int64_t offset = 0;
  for (std::size_t k = dimensions.size(); k-- > 0;) {
    const ir::PhysicalDimension& d = dimensions[k];
    if (d.axis != axis) continue;
    const bool block = k >= rank;
    offset += (block ? index % d.extent : index) * d.stride;
    if (block) index /= d.extent;
  }
  return offset;
}

// Along one axis. What has no blocks has a stride.
LayoutCopy::Places places_along(int axis, const Shape& shape,
                                const std::vector<ir::PhysicalDimension>& dimensions) {
  std::size_t count = 0;
  for (const ir::PhysicalDimension& d : dimensions) count += d.axis == axis ? 1 : 0;
  LayoutCopy::Places places{offset_along(axis, 1, shape.size(), dimensions), {}};
  if (count == 1) return places;
  for (std::int64_t k = 0; k < shape[static_cast<std::size_t>(axis)]; ++k) {
    places.offsets.push_back(offset_along(axis, k, shape.size(), dimensions));
  }
  return places;
}

}  // namespace

LayoutCopy::LayoutCopy(const ir::Type& type, const ir::Layout& from, const ir::Layout& to)
    : shape_(type.shape),
      element_bytes_(element_bytes(type.data_type)),
      target_bytes_(ir::storage_bytes(type, to)),
      same_(from == to),
      pads_(ir::has_padding(type.shape, to)) {
  if (same_) return;
  const auto source = ir::physical_dimensions(type.shape, from);
  const auto target = ir::physical_dimensions(type.shape, to);
  for (int axis = 0; axis < type.rank(); ++axis) {
    from_.push_back(places_along(axis, shape_, source));
    to_.push_back(places_along(axis, shape_, target));
  }
}

template <std::size_t bytes>
void LayoutCopy::copy(std::size_t axis, const std::byte* source, std::byte* target) const {
  if (axis == shape_.size()) {
    std::memcpy(target, source, bytes);
    return;
  }
  const Places& from = from_[axis];
  const Places& to = to_[axis];
  const std::int64_t step = static_cast<std::int64_t>(bytes);
  const bool innermost = axis + 1 == shape_.size();
  for (std::int64_t k = 0; k < shape_[axis]; ++k) {
    const std::byte* const at = source + from.offset(k) * step;
    std::byte* const there = target + to.offset(k) * step;
    if (innermost) {
      std::memcpy(there, at, bytes);
    } else {
      copy<bytes>(axis + 1, at, there);
    }
  }
}

void LayoutCopy::run(const std::byte* source, std::byte* target) const {
  if (same_) {
    std::memcpy(target, source, target_bytes_);
    return;
  }
  if (pads_) std::memset(target, 0, target_bytes_);
  switch (element_bytes_) {
    case 1:
      return copy<1>(0, source, target);
    case 2:
      return copy<2>(0, source, target);
    case 4:
      return copy<4>(0, source, target);
    default:
      return copy<8>(0, source, target);
  }
}

void copy_between_layouts(const ir::Type& type, const ir::Layout& from, const std::byte* source,
                          const ir::Layout& to, std::byte* target) {
  if (from == to) {
    std::memcpy(target, source, ir::storage_bytes(type, to));
    return;
  }
  LayoutCopy(type, from, to).run(source, target);
}

}  // namespace traingraph
