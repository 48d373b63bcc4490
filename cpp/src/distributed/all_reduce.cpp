// The two forms of the sum over ranks: all to all, and reduce-scatter with all-gather behind it.
#include "distributed/all_reduce.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <traingraph/errors.h>

#include "runtime/numbers/half.h"

namespace traingraph::distributed {
namespace {

constexpr std::size_t kLine = 64;

// Elements as they travel, and back.
void copy(const float* from, std::size_t count, BFloat16* to) {
  for (std::size_t k = 0; k < count; ++k) to[k].bits = narrowed_bfloat16(from[k]);
}
void copy(const BFloat16* from, std::size_t count, float* to) {
  for (std::size_t k = 0; k < count; ++k) to[k] = widened_bfloat16(from[k].bits);
}
template <class T>
void copy(const T* from, std::size_t count, T* to) {
  std::copy_n(from, count, to);
}

template <class T>
T wide(T value) {
  return value;
}
float wide(BFloat16 value) { return widened_bfloat16(value.bits); }

// sum = ((of rank 0 + of rank 1) + …), which may be where one of them is.
template <class T, class Sent, class Of>
void add_in_order(std::size_t count, std::size_t ranks, Sent* sum, const Of& of) {
  constexpr std::size_t kBlock = 1024;
  T block[kBlock];
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t length = std::min(kBlock, count - first);
    copy(of(0) + first, length, block);
    for (std::size_t r = 1; r < ranks; ++r) {
      const Sent* const next = of(r) + first;
      for (std::size_t k = 0; k < length; ++k) block[k] += wide(next[k]);
    }
    copy(block, length, sum + first);
  }
}

}  // namespace

template <class T, class Sent>
AllReduce<T, Sent>::AllReduce(std::shared_ptr<Ranks> ranks, std::vector<std::size_t> counts)
    : ranks_(std::move(ranks)),
      counts_(std::move(counts)),
      size_(static_cast<std::size_t>(ranks_->size())),
      own_(static_cast<std::size_t>(ranks_->rank())),
      elements_(std::accumulate(counts_.begin(), counts_.end(), std::size_t{0})),
      sends_(size_),
      receives_(size_) {
  const std::size_t most = is_whole() ? elements_ : (elements_ + size_ - 1) / size_ + 1;
  pitch_ = (sizeof(Header) + most * sizeof(Sent) + kLine - 1) / kLine * kLine;
  if (size_ > 1) workspace_bytes_ = (is_whole() ? 1 : 2) * size_ * pitch_;
}

template <class T, class Sent>
typename AllReduce<T, Sent>::Range AllReduce<T, Sent>::part_of(std::size_t rank) const {
  return {elements_ / size_ * rank + std::min(rank, elements_ % size_),
          elements_ / size_ * (rank + 1) + std::min(rank + 1, elements_ % size_)};
}

template <class T, class Sent>
template <class F>
void AllReduce<T, Sent>::each_piece(Range range, const F& f) const {
  std::size_t start = 0;
  for (std::size_t k = 0; k < counts_.size(); start += counts_[k++]) {
    const std::size_t first = std::max(start, range.first);
    const std::size_t last = std::min(start + counts_[k], range.last);
    if (first < last) f(k, first - start, first - range.first, last - first);
  }
}

template <class T, class Sent>
void AllReduce<T, Sent>::check_rows(const std::byte* room, std::int64_t rows,
                                    std::int64_t all_rows) const {
  std::int64_t sum = 0;
  for (std::size_t r = 0; r < size_; ++r) {
    Header header{0, 0, rows, all_rows};
    if (r != own_) std::memcpy(&header, room + r * pitch_, sizeof header);
    sum += header.rows;
    if (header.all_rows == all_rows) continue;
    throw DistributedError("[execute] expected the same number of rows on all ranks but rank " +
                           std::to_string(r) + " has " + std::to_string(header.rows) +
                           " and this rank " + std::to_string(rows) +
                           "; fit shards batches that are not");
  }
  if (sum == all_rows) return;
  throw DistributedError("[fit] expected " + std::to_string(all_rows) +
                         " rows of all ranks together but got " + std::to_string(sum));
}

template <class T, class Sent>
void AllReduce<T, Sent>::add_whole(const T* const* arrays, T* const* sums, std::byte* room,
                                   std::int64_t rows, std::int64_t all_rows) {
  const std::size_t length = sizeof(Header) + elements_ * sizeof(Sent);
  Sent* const own = numbers(room, own_);
  const Range all{0, elements_};
  each_piece(all, [&](std::size_t k, std::size_t from, std::size_t to, std::size_t count) {
    copy(arrays[k] + from, count, own + to);
  });
  for (std::size_t r = 0; r < size_; ++r) {
    if (r == own_) continue;
    sends_[r] = {message(room, own_), length};
    receives_[r] = {message(room, r), length};
  }
  ranks_->exchange(Call::all_reduce, elements_ * sizeof(Sent), rows, all_rows, sends_, receives_);
  check_rows(room, rows, all_rows);
  each_piece(all, [&](std::size_t k, std::size_t to, std::size_t from, std::size_t count) {
    // The own message is sent: its room may have the sum as it would have travelled.
    add_in_order<T>(count, size_, own + from,
                    [&](std::size_t r) { return numbers(room, r) + from; });
    copy(own + from, count, sums[k] + to);
  });
}

template <class T, class Sent>
void AllReduce<T, Sent>::run(const T* const* arrays, T* const* sums, std::byte* workspace,
                             std::int64_t rows, std::int64_t all_rows) {
  if (size_ == 1) {
    for (std::size_t k = 0; k < counts_.size(); ++k) {
      if (sums[k] != arrays[k]) std::copy_n(arrays[k], counts_[k], sums[k]);
    }
    return;
  }
  if (is_whole()) return add_whole(arrays, sums, workspace, rows, all_rows);
  std::byte* const parts = workspace;
  std::byte* const received = workspace + size_ * pitch_;
  const std::uint64_t bytes = elements_ * sizeof(Sent);
  const auto length = [&](std::size_t r) {
    const Range range = part_of(r);
    return sizeof(Header) + (range.last - range.first) * sizeof(Sent);
  };
  for (std::size_t r = 0; r < size_; ++r) {
    each_piece(part_of(r), [&](std::size_t k, std::size_t from, std::size_t to, std::size_t count) {
      copy(arrays[k] + from, count, numbers(parts, r) + to);
    });
    if (r == own_) continue;
    sends_[r] = {message(parts, r), length(r)};
    receives_[r] = {message(received, r), length(own_)};
  }
  ranks_->exchange(Call::all_reduce, bytes, rows, all_rows, sends_, receives_);
  check_rows(received, rows, all_rows);
  const Range own = part_of(own_);
  add_in_order<T>(own.last - own.first, size_, numbers(parts, own_),
                  [&](std::size_t r) { return numbers(r == own_ ? parts : received, r); });
  for (std::size_t r = 0; r < size_; ++r) {
    if (r == own_) continue;
    sends_[r] = {message(parts, own_), length(own_)};
    receives_[r] = {message(parts, r), length(r)};
  }
  ranks_->exchange(Call::all_reduce, bytes, rows, all_rows, sends_, receives_);
  for (std::size_t r = 0; r < size_; ++r) {
    each_piece(part_of(r), [&](std::size_t k, std::size_t to, std::size_t from, std::size_t count) {
      copy(numbers(parts, r) + from, count, sums[k] + to);
    });
  }
}

template class AllReduce<float>;
template class AllReduce<double>;
template class AllReduce<float, BFloat16>;

}  // namespace traingraph::distributed
