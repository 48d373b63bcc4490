// From live intervals to offsets: the largest buffer first, each at the lowest place where nothing
// that is live at the same time stands. A buffer that may replace another one (an elementwise
// result over an operand that ends there) prefers exactly that place.
#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include <traingraph/errors.h>

#include "passes/occupied.h"
#include "passes/passes.h"
#include "runtime/threads/interruption.h"

namespace traingraph::passes {
namespace {

bool may_replace(const std::vector<PlannedBuffer>& buffers, int later, int earlier) {
  const PlannedBuffer& b = buffers[static_cast<std::size_t>(later)];
  const PlannedBuffer& a = buffers[static_cast<std::size_t>(earlier)];
  return a.last == b.first && a.bytes == b.bytes &&
         std::find(b.may_replace.begin(), b.may_replace.end(), earlier) != b.may_replace.end();
}

// Of one buffer and of all: so no sum of two ends beyond 64 bits.
void expect_possible(std::size_t bytes) {
  if (bytes <= static_cast<std::size_t>(kMostBytes)) return;
  throw OutOfMemory("[memory_plan] expected at most " + std::to_string(kMostBytes) +
                    " bytes for what a program works in but got " + std::to_string(bytes));
}

bool contains(const std::vector<int>& list, int id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

class Planner {
 public:
  explicit Planner(std::vector<PlannedBuffer>& buffers)
      : buffers_(buffers),
        partners_(buffers.size()),
        shared_(buffers.size()),
        placed_(buffers.size(), false),
        occupied_(positions(buffers)) {
    for (std::size_t later = 0; later < buffers.size(); ++later) {
      const auto id = static_cast<int>(later);
      for (int earlier : buffers[later].may_replace) {
        if (!may_replace(buffers, id, earlier) || contains(partners_[later], earlier)) continue;
        partners_[later].push_back(earlier);
        partners_[static_cast<std::size_t>(earlier)].push_back(id);
      }
    }
  }

  void place(int id) {
    PlannedBuffer& buffer = at(id);
    if (!shares_place(id)) {
      buffer.offset = occupied_.lowest(buffer.first, buffer.last, aligned(buffer.bytes));
    }
    occupied_.take(buffer.first, buffer.last, buffer.offset, end(buffer));
    placed_[static_cast<std::size_t>(id)] = true;
  }

 private:
  PlannedBuffer& at(int id) { return buffers_[static_cast<std::size_t>(id)]; }
  static std::size_t end(const PlannedBuffer& buffer) {
    return buffer.offset + aligned(buffer.bytes);
  }
  static std::size_t positions(const std::vector<PlannedBuffer>& buffers) {
    std::size_t last = 0;
    for (const PlannedBuffer& buffer : buffers) last = std::max(last, buffer.last);
    return last + 1;
  }

  // At the lowest place of one that this buffer may share it with, where the others allow that.
  bool shares_place(int id) {
    std::vector<int> others;
    for (int other : partners_[static_cast<std::size_t>(id)]) {
      if (placed_[static_cast<std::size_t>(other)]) others.push_back(other);
    }
    std::sort(others.begin(), others.end(),
              [&](int a, int b) { return at(a).offset < at(b).offset; });
    PlannedBuffer& buffer = at(id);
    for (int other : others) {
      buffer.offset = at(other).offset;
      std::vector<int> there;
      if (!may_stand(id, others, there)) continue;
      for (int one : there) {
        shared_[static_cast<std::size_t>(one)].push_back(id);
        shared_[static_cast<std::size_t>(id)].push_back(one);
      }
      return true;
    }
    return false;
  }

  // Whether a buffer may stand at its offset, where `there` are those that it shares the place
  // with. They end where it begins, or begin where it ends.
  bool may_stand(int id, const std::vector<int>& others, std::vector<int>& there) {
    const PlannedBuffer& buffer = at(id);
    if (!may_stand(id, others, buffer.first, there)) return false;
    if (buffer.first == buffer.last) return true;
    return may_stand(id, others, buffer.last, there) &&
           (buffer.first + 1 == buffer.last ||
            occupied_.is_free(buffer.first + 1, buffer.last - 1, buffer.offset, end(buffer)));
  }

  bool may_stand(int id, const std::vector<int>& others, std::size_t position,
                 std::vector<int>& there) {
    const PlannedBuffer& buffer = at(id);
    const auto is_there = [&](int other) {
      const PlannedBuffer& one = at(other);
      return one.offset == buffer.offset && one.first <= position && position <= one.last;
    };
    const auto other = std::find_if(others.begin(), others.end(), is_there);
    if (other == others.end()) {
      return occupied_.is_free(position, position, buffer.offset, end(buffer));
    }
    // What else is there at this position shares the place with that one, too.
    there.push_back(*other);
    for (int one : shared_[static_cast<std::size_t>(*other)]) {
      if (!is_there(one)) continue;
      if (!contains(others, one)) return false;
      there.push_back(one);
    }
    return true;
  }

  std::vector<PlannedBuffer>& buffers_;
  std::vector<std::vector<int>> partners_;  // by buffer: those that may lie in its place
  std::vector<std::vector<int>> shared_;    // by buffer: those that do
  std::vector<bool> placed_;
  Occupied occupied_;
};

}  // namespace

ArenaPlan plan_arena(std::vector<PlannedBuffer> buffers) {
  ArenaPlan plan;
  std::vector<int> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return buffers[static_cast<std::size_t>(a)].bytes > buffers[static_cast<std::size_t>(b)].bytes;
  });
  Planner planner(buffers);
  for (int id : order) {
    const PlannedBuffer& buffer = buffers[static_cast<std::size_t>(id)];
    if (buffer.bytes == 0) break;
    check_compilation();
    expect_possible(buffer.bytes);
    planner.place(id);
    plan.bytes = std::max(plan.bytes, buffer.offset + aligned(buffer.bytes));
    expect_possible(plan.bytes);
  }
  plan.buffers = std::move(buffers);
  return plan;
}

void verify_plan(const ArenaPlan& plan) {
  const std::vector<PlannedBuffer>& buffers = plan.buffers;
  const auto at = [&](int id) -> const PlannedBuffer& {
    return buffers[static_cast<std::size_t>(id)];
  };
  std::vector<int> starts, ends;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].bytes == 0) continue;
    if (buffers[i].offset % kAlignment != 0 || buffers[i].offset + buffers[i].bytes > plan.bytes) {
      throw InternalError("[memory_plan] buffer " + std::to_string(i) + " lies outside the arena");
    }
    starts.push_back(static_cast<int>(i));
  }
  ends = starts;
  std::sort(starts.begin(), starts.end(), [&](int a, int b) { return at(a).first < at(b).first; });
  std::sort(ends.begin(), ends.end(), [&](int a, int b) { return at(a).last < at(b).last; });
  // What is live, by offset: none overlaps another one, but those of one place.
  std::multimap<std::size_t, int> live;
  const auto expect_apart = [&](int a, int b) {
    if (at(a).offset + at(a).bytes <= at(b).offset || at(b).offset + at(b).bytes <= at(a).offset ||
        (at(a).offset == at(b).offset &&
         (may_replace(buffers, a, b) || may_replace(buffers, b, a)))) {
      return;
    }
    throw InternalError("[memory_plan] buffers " + std::to_string(std::min(a, b)) + " and " +
                        std::to_string(std::max(a, b)) + " overlap while both live");
  };
  std::size_t ended = 0;
  for (int id : starts) {
    for (; ended < ends.size() && at(ends[ended]).last < at(id).first; ++ended) {
      const auto [from, to] = live.equal_range(at(ends[ended]).offset);
      live.erase(
          std::find_if(from, to, [&](const auto& one) { return one.second == ends[ended]; }));
    }
    auto next = live.lower_bound(at(id).offset);
    if (next != live.begin()) expect_apart(std::prev(next)->second, id);
    for (; next != live.end() && next->first < at(id).offset + at(id).bytes; ++next) {
      expect_apart(next->second, id);
    }
    live.emplace(at(id).offset, id);
  }
}

}  // namespace traingraph::passes
