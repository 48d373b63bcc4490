// The two forms of the sum over ranks: all to all, and reduce-scatter with all-gather behind it.
#include "distributed/all_reduce.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

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

template <class Range, class Sent>
Part bytes_of(const Sent* elements, Range range) {
  // What is sent is not written.
  return {reinterpret_cast<std::byte*>(const_cast<Sent*>(elements + range.first)),
          (range.last - range.first) * sizeof(Sent)};
}

// sum = ((of rank 0 + of rank 1) + …), which may be where one of them is.
template <class T, class Sent, class Of>
void add_in_order(std::size_t count, std::size_t ranks, Sent* sum, const Of& of) {
  constexpr std::integral_constant<std::size_t, 16> kBlock;
  T block[kBlock()];
  // A length that is constant lets the compiler take vectors.
  const auto add = [&](std::size_t first, auto length) {
    copy(of(0) + first, length, block);
    for (std::size_t r = 1; r < ranks; ++r) {
      const Sent* const next = of(r) + first;
      for (std::size_t k = 0; k < length; ++k) block[k] += wide(next[k]);
    }
    copy(block, length, sum + first);
  };
  std::size_t first = 0;
  for (; first + kBlock <= count; first += kBlock) add(first, kBlock);
  add(first, count - first);
}

}  // namespace

template <class T, class Sent>
AllReduce<T, Sent>::AllReduce(std::shared_ptr<Ranks> ranks, int graph,
                              std::vector<std::size_t> counts)
    : ranks_(std::move(ranks)),
      graph_(graph),
      counts_(std::move(counts)),
      size_(static_cast<std::size_t>(ranks_->size())),
      own_(static_cast<std::size_t>(ranks_->rank())),
      is_packed_(counts_.size() != 1 || !std::is_same_v<T, Sent>),
      elements_(std::accumulate(counts_.begin(), counts_.end(), std::size_t{0})),
      messages_(size_) {
  const auto padded = [](std::size_t count) {
    return (count * sizeof(Sent) + kLine - 1) / kLine * kLine;
  };
  pitch_ = padded(is_whole() ? elements_ : (elements_ + size_ - 1) / size_);
  if (size_ > 1) workspace_bytes_ = size_ * pitch_ + (is_packed_ ? padded(elements_) : 0);
}

template <class T, class Sent>
typename AllReduce<T, Sent>::Range AllReduce<T, Sent>::part_of(std::size_t rank) const {
  return {elements_ / size_ * rank + std::min(rank, elements_ % size_),
          elements_ / size_ * (rank + 1) + std::min(rank + 1, elements_ % size_)};
}

template <class T, class Sent>
void AllReduce<T, Sent>::check_rows(std::int64_t rows, std::int64_t all_rows) const {
  std::int64_t sum = rows;
  for (std::size_t r = 0; r < size_; ++r) {
    if (r == own_) continue;
    const Header& header = messages_.headers[r];
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
void AllReduce<T, Sent>::run(const T* const* arrays, T* const* sums, std::byte* workspace,
                             std::int64_t rows, std::int64_t all_rows) {
  if (size_ == 1) {
    for (std::size_t k = 0; k < counts_.size(); ++k) {
      if (sums[k] != arrays[k]) std::copy_n(arrays[k], counts_[k], sums[k]);
    }
    return;
  }
  if constexpr (std::is_same_v<T, Sent>) {
    if (!is_packed_) return add(arrays[0], sums[0], workspace, rows, all_rows);
  }
  auto* const packed = reinterpret_cast<Sent*>(workspace + size_ * pitch_);
  Sent* at = packed;
  for (std::size_t k = 0; k < counts_.size(); at += counts_[k++]) copy(arrays[k], counts_[k], at);
  add(packed, packed, workspace, rows, all_rows);
  at = packed;
  for (std::size_t k = 0; k < counts_.size(); at += counts_[k++]) copy(at, counts_[k], sums[k]);
}

template <class T, class Sent>
void AllReduce<T, Sent>::add(const Sent* from, Sent* to, std::byte* workspace, std::int64_t rows,
                             std::int64_t all_rows) {
  const auto exchange = [&] {
    ranks_->exchange(
        Call::all_reduce,
        {.bytes = elements_ * sizeof(Sent), .graph = graph_, .rows = rows, .all_rows = all_rows},
        messages_);
  };
  // Of one rank, the elements that this rank adds and those that are sent to it.
  const Range added = is_whole() ? Range{0, elements_} : part_of(own_);
  for (std::size_t r = 0; r < size_; ++r) {
    if (r == own_) continue;
    messages_.sends[r] = bytes_of(from, is_whole() ? added : part_of(r));
    messages_.receives[r] = bytes_of(room_of(workspace, r), Range{0, added.last - added.first});
  }
  exchange();
  check_rows(rows, all_rows);
  add_in_order<T>(added.last - added.first, size_, to + added.first, [&](std::size_t r) {
    return r == own_ ? from + added.first : room_of(workspace, r);
  });
  if (is_whole()) return;
  for (std::size_t r = 0; r < size_; ++r) {
    if (r == own_) continue;
    messages_.sends[r] = bytes_of(to, added);
    messages_.receives[r] = bytes_of(to, part_of(r));
  }
  exchange();
}

template class AllReduce<float>;
template class AllReduce<double>;
template class AllReduce<float, BFloat16>;

}  // namespace traingraph::distributed
