// Takes ranges of bytes at positions of the schedule, and finds the lowest that are free at all of
// some positions.
#include "passes/occupied.h"

#include <algorithm>

namespace traingraph::passes {

Occupied::Occupied(std::size_t positions) {
  while (size_ < positions) size_ *= 2;
  nodes_.resize(2 * size_);
}

void Occupied::add(Ranges& ranges, Range added) {
  const auto from = std::lower_bound(ranges.begin(), ranges.end(), added.begin,
                                     [](const Range& r, std::size_t at) { return r.end < at; });
  auto to = from;
  for (; to != ranges.end() && to->begin <= added.end; ++to) {
    added = {std::min(added.begin, to->begin), std::max(added.end, to->end)};
  }
  if (from == to) {
    ranges.insert(from, added);
    return;
  }
  *from = added;
  ranges.erase(from + 1, to);
}

const Occupied::Range* Occupied::behind(const Ranges& ranges, std::size_t offset) {
  const auto found = std::upper_bound(ranges.begin(), ranges.end(), offset,
                                      [](std::size_t at, const Range& r) { return at < r.end; });
  return found == ranges.end() ? nullptr : &*found;
}

void Occupied::take(std::size_t node, std::size_t low, std::size_t high, std::size_t first,
                    std::size_t last, Range range) {
  add(nodes_[node].sometimes, range);
  if (first <= low && high <= last) {
    add(nodes_[node].always, range);
    return;
  }
  const std::size_t middle = low + (high - low) / 2;
  if (first <= middle) take(2 * node, low, middle, first, last, range);
  if (last > middle) take(2 * node + 1, middle + 1, high, first, last, range);
}

template <typename Visit>
bool Occupied::visit(std::size_t node, std::size_t low, std::size_t high, std::size_t first,
                     std::size_t last, Visit&& to) const {
  if (nodes_[node].sometimes.empty()) return true;
  if (first <= low && high <= last) return to(nodes_[node].sometimes);
  if (!nodes_[node].always.empty() && !to(nodes_[node].always)) return false;
  const std::size_t middle = low + (high - low) / 2;
  return (first > middle || visit(2 * node, low, middle, first, last, to)) &&
         (last <= middle || visit(2 * node + 1, middle + 1, high, first, last, to));
}

void Occupied::take(std::size_t first, std::size_t last, std::size_t begin, std::size_t end) {
  take(1, 0, size_ - 1, first, last, {begin, end});
}

bool Occupied::is_free(std::size_t first, std::size_t last, std::size_t begin,
                       std::size_t end) const {
  return visit(1, 0, size_ - 1, first, last, [&](const Ranges& taken) {
    const Range* next = behind(taken, begin);
    return next == nullptr || next->begin >= end;
  });
}

std::size_t Occupied::lowest(std::size_t first, std::size_t last, std::size_t bytes) const {
  std::vector<const Ranges*> taken;
  visit(1, 0, size_ - 1, first, last, [&](const Ranges& ranges) {
    taken.push_back(&ranges);
    return true;
  });
  std::size_t offset = 0;
  // Until it is free for all of them, one after another.
  for (std::size_t k = 0, free_for = 0; free_for < taken.size(); k = (k + 1) % taken.size()) {
    const Range* next = behind(*taken[k], offset);
    ++free_for;
    for (; next != nullptr && next->begin < offset + bytes; next = behind(*taken[k], offset)) {
      offset = next->end;
      free_for = 1;
    }
  }
  return offset;
}

}  // namespace traingraph::passes
