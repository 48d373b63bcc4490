#pragma once

#include <cstddef>
#include <vector>

#include "ir/type.h"

namespace traingraph {

// The same tensor from one layout to another, element by element; padding becomes zero. Prepared
// once; running allocates nothing. For uploads and downloads, a layout chosen anew, and whatever
// no library reorders.
class LayoutCopy {
 public:
  LayoutCopy(const ir::Type& type, const ir::Layout& from, const ir::Layout& to);
  void run(const std::byte* source, std::byte* target) const;

  // Where the elements along one axis lie, in elements; places of all axes add up.
  struct Places {
    std::int64_t stride;
    std::vector<std::int64_t> offsets;  // where the axis has blocks

    std::int64_t offset(std::int64_t index) const {
      return offsets.empty() ? index * stride : offsets[static_cast<std::size_t>(index)];
    }
  };

 private:
  template <std::size_t bytes>
  void copy(std::size_t axis, const std::byte* source, std::byte* target) const;

  Shape shape_;
  std::vector<Places> from_;
  std::vector<Places> to_;
  std::size_t element_bytes_;
  std::size_t target_bytes_;
  bool same_;
  bool pads_;
};

// Both in one call.
void copy_between_layouts(const ir::Type& type, const ir::Layout& from, const std::byte* source,
                          const ir::Layout& to, std::byte* target);

}  // namespace traingraph
