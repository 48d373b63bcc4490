// Types and layouts as text, and where the elements of a tensor lie in memory under a layout.
#include "ir/type.h"

#include <algorithm>

#include "ir/extents.h"

namespace traingraph::ir {

std::string to_string(const Type& type) {
  std::string text = name(type.data_type);
  text += " (";
  for (int i = 0; i < type.rank(); ++i) {
    if (i > 0) text += ", ";
    if (i == 0 && type.batched) text += "N=";
    text += std::to_string(type.shape[static_cast<std::size_t>(i)]);
  }
  return text + ")";
}

Layout normalized(Layout layout) {
  bool identity = layout.blocks.empty();
  for (std::size_t i = 0; i < layout.order.size(); ++i) {
    identity = identity && layout.order[i] == static_cast<int>(i);
  }
  return identity ? Layout{} : layout;
}

Layout channels_last(int rank) {
  Layout layout;
  layout.order.push_back(0);
  for (int axis = 2; axis < rank; ++axis) layout.order.push_back(axis);
  if (rank > 1) layout.order.push_back(1);
  return normalized(layout);
}

std::string to_string(const Layout& layout) {
  if (layout.plain()) return "plain";
  std::string text;
  for (int axis : layout.order) text += std::to_string(axis);
  for (const Layout::Block& block : layout.blocks) {
    text += "b" + std::to_string(block.axis) + "x" + std::to_string(block.size);
  }
  return text;
}

std::vector<PhysicalDimension> physical_dimensions(const Shape& shape, const Layout& layout) {
  std::vector<PhysicalDimension> dimensions;
  std::vector<std::int64_t> outer(shape.begin(), shape.end());
  for (const Layout::Block& block : layout.blocks) {
    std::int64_t& extent = outer[static_cast<std::size_t>(block.axis)];
    extent = (extent + block.size - 1) / block.size;
  }
  // Several blocks over one axis: the loop above divides by each in turn, which rounds up as a
  // whole because ceil(ceil(n / a) / b) = ceil(n / (a b)).
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const int axis = layout.order.empty() ? static_cast<int>(i) : layout.order[i];
    dimensions.push_back({axis, outer[static_cast<std::size_t>(axis)], 0});
  }
  for (const Layout::Block& block : layout.blocks) {
    dimensions.push_back({block.axis, block.size, 0});
  }
  std::int64_t stride = 1;
  for (auto it = dimensions.rbegin(); it != dimensions.rend(); ++it) {
    it->stride = stride;
    stride = product(stride, it->extent);
  }
  return dimensions;
}

std::int64_t padded_elements(const Shape& shape, const Layout& layout) {
  if (layout.blocks.empty()) return element_count(shape);
  std::int64_t count = 1;
  for (const PhysicalDimension& dimension : physical_dimensions(shape, layout)) {
    count = product(count, dimension.extent);
  }
  return count;
}

std::size_t storage_bytes(const Type& type, const Layout& layout) {
  return static_cast<std::size_t>(
      product(padded_elements(type.shape, layout),
              static_cast<std::int64_t>(element_bytes(type.data_type))));
}

bool has_padding(const Shape& shape, const Layout& layout) {
  return padded_elements(shape, layout) != element_count(shape);
}

bool same_bytes(const Shape& shape, const Layout& a, const Layout& b) {
  if (a == b) return true;
  if (!a.blocks.empty() || !b.blocks.empty()) return false;
  auto longer_axes = [&](const Layout& layout) {
    std::vector<int> axes;
    for (const PhysicalDimension& dimension : physical_dimensions(shape, layout)) {
      if (dimension.extent != 1) axes.push_back(dimension.axis);
    }
    return axes;
  };
  return longer_axes(a) == longer_axes(b);
}

Shape dense_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = product(strides[i], shape[i]);
  return strides;
}

}  // namespace traingraph::ir
