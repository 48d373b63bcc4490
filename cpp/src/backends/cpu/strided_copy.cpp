// Merges axes that lie behind each other on both sides, chooses the plane that one call moves, and
// walks over the blocks of all planes.
#include "backends/cpu/strided_copy.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/cpu/isa/elements/data_movement.h"
#include "backends/cpu/isa_select.h"
#include "backends/cpu/parallel.h"

namespace traingraph::cpu {
namespace {

using Axis = StridedCopy::Axis;

constexpr std::int64_t kPartBytes = 65536;
constexpr std::int64_t kSide = 64;  // of a transposed block, in elements

// In the order of the target and as few as possible.
std::vector<Axis> merged(std::vector<Axis> axes) {
  std::erase_if(axes, [](const Axis& axis) { return axis.extent == 1; });
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& a, const Axis& b) { return a.to > b.to; });
  std::vector<Axis> result;
  for (const Axis& axis : axes) {
    const bool follows = !result.empty() && result.back().from == axis.from * axis.extent &&
                         result.back().to == axis.to * axis.extent;
    if (follows) {
      result.back() = {result.back().extent * axis.extent, axis.from, axis.to};
    } else {
      result.push_back(axis);
    }
  }
  return result;
}

// Takes the first axis that fits out of the list; else one of a single element.
template <class Fits>
Axis take(std::vector<Axis>& axes, Fits fits) {
  const auto found = std::find_if(axes.begin(), axes.end(), fits);
  if (found == axes.end()) return {1, 1, 1};
  const Axis axis = *found;
  axes.erase(found);
  return axis;
}

// Zeros where `source` is null.
template <std::size_t kBytes>
void copy_rows(const std::byte* source, std::byte* target, std::int64_t rows, Axis i,
               std::size_t bytes) {
  const std::size_t count = kBytes > 0 ? kBytes : bytes;  // one that is known needs no call
  for (std::int64_t row = 0; row < rows; ++row, target += i.to) {
    if (source == nullptr) {
      std::memset(target, 0, count);
    } else {
      std::memcpy(target, source + row * i.from, count);
    }
  }
}

}  // namespace

StridedCopy::StridedCopy(std::vector<Axis> axes, std::size_t element_bytes)
    : bytes_(static_cast<std::int64_t>(element_bytes)) {
  axes = merged(std::move(axes));
  const auto adjoins = [](const Axis& axis) { return axis.from == 1 || axis.to == 1; };
  const auto is_run = [](const Axis& axis) { return axis.from == 1 && axis.to == 1; };
  Axis i{1, 1, 1}, j = take(axes, is_run);
  transposes_ = j.extent == 1 && std::any_of(axes.begin(), axes.end(), adjoins);
  if (transposes_) {
    i = take(axes, [](const Axis& axis) { return axis.to == 1; });
    j = take(axes, [](const Axis& axis) { return axis.from == 1; });
  } else if (!axes.empty()) {
    i = axes.back();
    axes.pop_back();
  }
  for (const Axis& axis : axes)
    grid_.push_back({axis.extent, axis.from * bytes_, axis.to * bytes_});
  plan_blocks(i, j);
}

void StridedCopy::plan_blocks(Axis i, Axis j) {
  for (Axis* axis : {&i, &j}) axis->from *= bytes_, axis->to *= bytes_;
  i_ = i;
  j_ = j;
  const std::int64_t most = transposes_ ? kSide * kSide : kPartBytes / bytes_;
  const std::int64_t side = transposes_ ? kSide : 1;
  block_j_ = std::clamp<std::int64_t>(most / std::clamp<std::int64_t>(i.extent, 1, side), 1,
                                      std::max<std::int64_t>(j.extent, 1));
  block_i_ = std::clamp<std::int64_t>(most / block_j_, 1, std::max<std::int64_t>(i.extent, 1));
  grid_.push_back({(i.extent + block_i_ - 1) / block_i_, block_i_ * i.from, block_i_ * i.to});
  grid_.push_back({(j.extent + block_j_ - 1) / block_j_, block_j_ * j.from, block_j_ * j.to});
  std::int64_t elements = i.extent * j.extent;
  for (const Axis& axis : grid_) blocks_ *= axis.extent;
  for (std::size_t k = 0; k + 2 < grid_.size(); ++k) elements *= grid_[k].extent;
  blocks_per_part_ = std::max<std::int64_t>(1, kPartBytes / (block_i_ * block_j_ * bytes_));
  threads_ = threads_for(nanoseconds_to_move(2.0 * static_cast<double>(elements * bytes_)));
}

void StridedCopy::run(const std::byte* source, std::byte* target) const {
  constexpr std::size_t kMostAxes = 16;
  const std::int64_t parts = (blocks_ + blocks_per_part_ - 1) / blocks_per_part_;
  parallel_for(parts, threads_, [&](std::int64_t part) {
    const std::int64_t begin = part * blocks_per_part_;
    const std::int64_t end = std::min(blocks_, begin + blocks_per_part_);
    const std::size_t last = grid_.size() - 1;
    std::int64_t at[kMostAxes];
    const std::byte* x = source;
    std::byte* y = target;
    const auto advance = [&](const Axis& axis, std::int64_t steps) {
      if (source != nullptr) x += steps * axis.from;
      y += steps * axis.to;
    };
    std::int64_t rest = begin;
    for (std::size_t k = last + 1; k-- > 0;) {
      at[k] = rest % grid_[k].extent;
      rest /= grid_[k].extent;
      advance(grid_[k], at[k]);
    }
    for (std::int64_t block = begin; block < end; ++block) {
      move(x, y, std::min(block_i_, i_.extent - at[last - 1] * block_i_),
           std::min(block_j_, j_.extent - at[last] * block_j_));
      for (std::size_t k = last + 1; k-- > 0;) {
        advance(grid_[k], 1);
        if (++at[k] < grid_[k].extent) break;
        at[k] = 0;
        advance(grid_[k], -grid_[k].extent);
      }
    }
  });
}

void StridedCopy::move(const std::byte* source, std::byte* target, std::int64_t rows,
                       std::int64_t columns) const {
  if (transposes_) {
    const auto size = static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(bytes_)));
    loops().data_movement->transpose[size](source, i_.from, target, j_.to, rows, columns);
    return;
  }
  const auto bytes = static_cast<std::size_t>(columns * bytes_);
  switch (bytes) {
    case 4:
      return copy_rows<4>(source, target, rows, i_, bytes);
    case 8:
      return copy_rows<8>(source, target, rows, i_, bytes);
    case 16:
      return copy_rows<16>(source, target, rows, i_, bytes);
    case 32:
      return copy_rows<32>(source, target, rows, i_, bytes);
    case 64:
      return copy_rows<64>(source, target, rows, i_, bytes);
    default:
      return copy_rows<0>(source, target, rows, i_, bytes);
  }
}

}  // namespace traingraph::cpu
