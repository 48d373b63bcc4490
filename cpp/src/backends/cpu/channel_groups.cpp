#include "backends/cpu/channel_groups.h"

namespace traingraph::cpu {
namespace {

constexpr std::int64_t kMostLanes = 64;
constexpr std::int64_t kChunkElements = 16384;

bool is_blocked(const Shape& shape, const ir::Layout& layout) {
  if (layout.blocks.size() != 1 || layout.blocks[0].axis != 1) return false;
  ir::Layout outer{layout.order, {}};
  return ir::normalized(outer).plain() && shape[1] % layout.blocks[0].size == 0;
}

}  // namespace

bool ChannelGroups::takes(const Shape& shape, const ir::Layout& layout) {
  if (shape.size() < 2) return false;
  return layout.plain() || is_blocked(shape, layout) ||
         layout == ir::channels_last(static_cast<int>(shape.size()));
}

ChannelGroups::ChannelGroups(const Shape& shape, const ir::Layout& layout) : channels_(shape[1]) {
  const std::int64_t all = element_count(shape);
  const std::int64_t space = all == 0 ? 1 : all / (shape[0] * shape[1]);
  const bool rows_of_channels =
      (layout.plain() && space == 1) ||
      (!layout.plain() && layout == ir::channels_last(static_cast<int>(shape.size())));
  if (rows_of_channels) {
    space_ = shape[0] * space;
    width_ = std::min(kMostLanes, channels_);
    stride_ = channels_;
    group_stride_ = width_;
  } else {
    batch_ = shape[0];
    space_ = space;
    width_ = layout.plain() ? 1 : layout.blocks[0].size;
    stride_ = width_;
    group_stride_ = space * width_;
    batch_stride_ = space * channels_;
  }
  groups_ = (channels_ + width_ - 1) / width_;
  chunk_rows_ = std::max<std::int64_t>(1, kChunkElements / width_);
  chunks_ = std::max<std::int64_t>(1, (rows() + chunk_rows_ - 1) / chunk_rows_);
}

}  // namespace traingraph::cpu
