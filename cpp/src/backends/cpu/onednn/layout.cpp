// Between ir::Layout and oneDNN's memory descriptors.
//
// oneDNN builds blocked descriptors from named tags only, but tells the strides and blocks of any
// descriptor. So the tags are turned into layouts once per rank, and looked up by layout.
#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>

#include <traingraph/mutex.h>

#include "backends/cpu/onednn/kernel.h"

namespace traingraph::cpu {
namespace {

using dnnl::memory;

// Outer axes from the largest stride to the smallest. Axes of extent 1 have no place of their own;
// where two strides are equal the lower axis stays outside.
std::vector<int> order_by_stride(const memory::dims& strides) {
  std::vector<int> order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return strides[static_cast<std::size_t>(a)] > strides[static_cast<std::size_t>(b)];
  });
  return order;
}

std::vector<ir::Layout::Block> blocks_of(const memory::desc& desc) {
  std::vector<ir::Layout::Block> blocks;
  const memory::dims sizes = desc.get_inner_blks(), axes = desc.get_inner_idxs();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    blocks.push_back({static_cast<int>(axes[i]), sizes[i]});
  }
  return blocks;
}

// Whether elements lie where the descriptor puts them. Strides of extent 1 say nothing.
bool lies_as(const Shape& shape, const ir::Layout& layout, const memory::desc& desc) {
  const memory::dims strides = desc.get_strides(), padded = desc.get_padded_dims();
  const auto dimensions = ir::physical_dimensions(shape, layout);
  Shape extents(shape.size(), 1);
  for (const ir::PhysicalDimension& d : dimensions) {
    extents[static_cast<std::size_t>(d.axis)] *= d.extent;
  }
  if (extents != padded) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const ir::PhysicalDimension& d = dimensions[i];
    if (d.extent > 1 && d.stride != strides[static_cast<std::size_t>(d.axis)]) return false;
  }
  return true;
}

// Tags with blocks of one rank, by the layout they mean.
using TagTable = std::map<std::string, memory::format_tag>;

TagTable build_tags(std::size_t rank) {
  TagTable table;
  // Large enough that every outer extent exceeds 1, whatever the blocks: strides then tell the
  // order.
  const memory::dims extents(rank, 512);
  for (int tag = dnnl_a; tag < dnnl_format_tag_last; ++tag) {
    const memory::desc desc(extents, memory::data_type::f32, static_cast<memory::format_tag>(tag),
                            true);
    if (!desc) continue;
    ir::Layout layout{order_by_stride(desc.get_strides()), blocks_of(desc)};
    if (layout.blocks.empty()) continue;
    table.emplace(ir::to_string(layout), static_cast<memory::format_tag>(tag));
  }
  return table;
}

std::optional<memory::format_tag> blocked_tag(std::size_t rank, const ir::Layout& layout) {
  constexpr std::size_t kMostAxes = 6;  // no tag with blocks has more
  static Mutex mutex;
  static std::map<std::size_t, TagTable>& tables = *new std::map<std::size_t, TagTable>;
  if (rank == 0 || rank > kMostAxes) return {};
  ir::Layout key = layout;
  if (key.order.empty()) {
    key.order.resize(rank);
    std::iota(key.order.begin(), key.order.end(), 0);
  }
  const std::lock_guard lock(mutex);
  auto [table, fresh] = tables.try_emplace(rank);
  if (fresh) table->second = build_tags(rank);
  const auto found = table->second.find(ir::to_string(key));
  if (found == table->second.end()) return {};
  return found->second;
}

memory::data_type element_type(DataType type) {
  return type == DataType::kBFloat16 ? memory::data_type::bf16 : memory::data_type::f32;
}

}  // namespace

memory::desc describe_any(const Shape& shape, DataType type) {
  return memory::desc(shape, element_type(type), memory::format_tag::any);
}

memory::desc describe_strided(const Shape& shape, const Shape& strides, DataType type) {
  return memory::desc(shape, element_type(type), strides);
}

std::optional<memory::desc> describe(const Shape& shape, const ir::Layout& layout, DataType type) {
  if (shape.empty() || shape.size() > DNNL_MAX_NDIMS) return {};
  if (!layout.blocks.empty()) {
    const auto tag = blocked_tag(shape.size(), layout);
    if (!tag) return {};
    return memory::desc(shape, element_type(type), *tag);
  }
  Shape strides(shape.size(), 1);
  for (const ir::PhysicalDimension& d : ir::physical_dimensions(shape, layout)) {
    strides[static_cast<std::size_t>(d.axis)] = d.stride;
  }
  return describe_strided(shape, strides, type);
}

std::optional<ir::Layout> layout_of(const memory::desc& desc) {
  if (!desc || desc.get_format_kind() != memory::format_kind::blocked) return {};
  if (desc.get_submemory_offset() != 0) return {};
  for (memory::dim offset : desc.get_padded_offsets()) {
    if (offset != 0) return {};
  }
  const Shape shape = desc.get_dims();
  const std::vector<ir::Layout::Block> blocks = blocks_of(desc);
  // Names that others use come first: extents of 1 leave several that mean the same.
  std::vector<ir::Layout> candidates;
  if (blocks.empty()) {
    candidates = {ir::Layout{}, ir::channels_last(static_cast<int>(shape.size()))};
  } else {
    std::vector<int> identity(shape.size());
    std::iota(identity.begin(), identity.end(), 0);
    candidates = {{identity, blocks}};
  }
  candidates.push_back(ir::normalized({order_by_stride(desc.get_strides()), blocks}));
  for (const ir::Layout& layout : candidates) {
    if (!lies_as(shape, layout, desc)) continue;
    // Equality with a descriptor of our own excludes whatever the queries do not show.
    const bool half = desc.get_data_type() == memory::data_type::bf16;
    const auto same = describe(shape, layout, half ? DataType::kBFloat16 : DataType::kFloat32);
    if (same && same->get_size() == desc.get_size()) return layout;
  }
  return {};
}

}  // namespace traingraph::cpu
