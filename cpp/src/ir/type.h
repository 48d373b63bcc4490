// Types and memory layouts of the values of a graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <traingraph/types.h>

namespace traingraph::ir {

// What a value is: element type, extents, and whether axis 0 is the batch symbol (its extent is
// the batch this graph was lowered for, but nothing may depend on that number).
struct Type {
  DataType data_type = DataType::kFloat32;
  Shape shape;
  bool batched = false;

  std::int64_t elements() const { return element_count(shape); }
  int rank() const { return static_cast<int>(shape.size()); }
  bool operator==(const Type&) const = default;
};

std::string to_string(const Type& type);  // "float32 (N=64, 10)"

// float16 or bfloat16
inline bool is_half(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBFloat16;
}

// How a value's elements lie in memory. Outer axes follow `order` (outermost first), then come the
// blocks, innermost last: nChw16c is order {0,1,2,3} with one block of 16 over axis 1. Extents are
// padded up to whole blocks and padding is zero. The empty layout is dense row-major.
struct Layout {
  struct Block {
    int axis;
    std::int64_t size;
    bool operator==(const Block&) const = default;
  };
  std::vector<int> order;
  std::vector<Block> blocks;

  bool plain() const { return order.empty() && blocks.empty(); }
  bool operator==(const Layout&) const = default;
};

// Identity order without blocks becomes the empty layout, so that equal layouts compare equal.
Layout normalized(Layout layout);
Layout channels_last(int rank);
std::string to_string(const Layout& layout);  // "plain", "0231", "0123b1x16"

// One dimension of the memory: `axis` of the tensor, how many steps, and the distance in elements.
struct PhysicalDimension {
  int axis;
  std::int64_t extent;
  std::int64_t stride;
};

// Outermost first, block dimensions last. Extents include padding.
std::vector<PhysicalDimension> physical_dimensions(const Shape& shape, const Layout& layout);
// Elements with padding.
std::int64_t padded_elements(const Shape& shape, const Layout& layout);
std::size_t storage_bytes(const Type& type, const Layout& layout);
// Whether every extent is a whole number of blocks.
bool has_padding(const Shape& shape, const Layout& layout);
// Whether a tensor of this shape lies the same way in both: their elements come in one order and
// neither pads.
bool same_bytes(const Shape& shape, const Layout& a, const Layout& b);
// Bytes between the elements of a dense row-major tensor, in elements.
Shape dense_strides(const Shape& shape);

}  // namespace traingraph::ir
