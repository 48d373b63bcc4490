// Visits a tensor (N, C, …) in memory order by groups of adjacent channels, for batch norm and
// pooling. One channel per group when plain (N, C, S), a block in nChw16c, up to 64 neighbours in
// channels-last and in (N, C).
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/isa/batch_norm.h"
#include "ir/type.h"

namespace traingraph::cpu {

// A group's rows, numbered 0 … rows-1, are cut into chunks by shape alone; a chunk is a few
// stretches of equally spaced rows.
class ChannelGroups {
 public:
  ChannelGroups(const Shape& shape, const ir::Layout& layout);

  // Whether the layout is one of those above, with no channel of padding.
  static bool takes(const Shape& shape, const ir::Layout& layout);

  std::int64_t groups() const { return groups_; }
  std::int64_t chunks() const { return chunks_; }
  std::int64_t rows() const { return batch_ * space_; }
  std::int64_t lanes(std::int64_t group) const {
    return std::min(width_, channels_ - group * width_);
  }
  std::int64_t first_channel(std::int64_t group) const { return group * width_; }
  bool in_runs() const { return width_ == 1 && stride_ == 1; }
  std::int64_t chunk_begin(std::int64_t chunk) const { return chunk * chunk_rows_; }
  std::int64_t chunk_end(std::int64_t chunk) const { return chunk_end(chunk, rows()); }
  // Of the rows before `end`; the chunk's begin where there are none.
  std::int64_t chunk_end(std::int64_t chunk, std::int64_t end) const {
    return std::max(chunk_begin(chunk), std::min(end, (chunk + 1) * chunk_rows_));
  }
  std::int64_t channels() const { return channels_; }
  // Elements from a group's row to the next one's, if there is one.
  std::int64_t to_next(std::int64_t group) const { return group + 1 < groups_ ? group_stride_ : 0; }

  // body(offset of the first element, rows there) for each stretch of one chunk.
  template <class Body>
  void each_stretch(std::int64_t group, std::int64_t chunk, const Body& body) const {
    each_stretch_of(group, chunk_begin(chunk), chunk_end(chunk), body);
  }
  // Of these rows.
  template <class Body>
  void each_stretch_of(std::int64_t group, std::int64_t begin, std::int64_t end,
                       const Body& body) const {
    while (begin < end) {
      const std::int64_t n = begin / space_, s = begin % space_;
      const std::int64_t rows = std::min(end - begin, space_ - s);
      ChannelRows where{rows, stride_, lanes(group)};
      // Behind the last rows of an image nothing tells the machine where reading goes on.
      if (s + rows == space_) {
        where.next =
            (n + 1 < batch_ ? batch_stride_ : group_stride_ - n * batch_stride_) - s * stride_;
      }
      body(n * batch_stride_ + group * group_stride_ + s * stride_, where);
      begin += rows;
    }
  }

  // body(offset, channel of the group) for each element of these rows.
  template <class Body>
  void each_element_of(std::int64_t group, std::int64_t begin, std::int64_t end,
                       const Body& body) const {
    each_stretch_of(group, begin, end, [&](std::int64_t at, ChannelRows where) {
      for (std::int64_t r = 0; r < where.rows; ++r) {
        for (std::int64_t j = 0; j < where.lanes; ++j) body(at + r * where.stride + j, j);
      }
    });
  }

 private:
  std::int64_t batch_ = 1;     // stretches further apart than rows
  std::int64_t space_ = 1;     // rows of one of them
  std::int64_t channels_ = 1;  // all
  std::int64_t width_ = 1;     // channels of a group
  std::int64_t groups_ = 1;
  std::int64_t batch_stride_ = 0, group_stride_ = 0, stride_ = 1;
  std::int64_t chunk_rows_ = 1;
  std::int64_t chunks_ = 1;
};

}  // namespace traingraph::cpu
