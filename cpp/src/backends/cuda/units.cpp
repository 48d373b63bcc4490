#include "backends/cuda/units.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace traingraph::cuda {
namespace {

// Of one node: in a program of one level, and in one of several.
constexpr int kMostTasks = 512, kMostChainedTasks = 64;
constexpr std::size_t kMostNodes = 96;  // of one program

class Grouping {
 public:
  Grouping(const std::vector<std::vector<std::size_t>>& dependencies, const std::vector<int>& tasks)
      : dependencies_(dependencies),
        tasks_(tasks),
        waiting_(tasks.size()),
        places_(tasks.size(), Place{kNowhere, 0}) {
    for (std::size_t k = 0; k < tasks.size(); ++k) {
      for (std::size_t before : dependencies[k]) waiting_[before].push_back(k);
    }
    for (std::size_t k = 0; k < tasks.size(); ++k) {
      // What waits for nothing is placed with the first node that waits for it.
      if (dependencies[k].empty() && !is_last(k)) continue;
      for (std::size_t before : dependencies[k]) {
        if (places_[before].group == kNowhere) add(before);
      }
      add(k);
    }
  }

  std::vector<Unit> in_order() const {
    std::vector<Unit> result;
    std::vector<std::size_t> number(groups_.size(), kNowhere);
    while (result.size() < groups_.size()) {
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        const Group& group = groups_[g];
        const bool ready = std::all_of(group.needs.begin(), group.needs.end(),
                                       [&](std::size_t u) { return number[u] != kNowhere; });
        if (number[g] != kNowhere || !ready) continue;
        number[g] = result.size();
        Unit unit{group.levels, {}};
        for (std::size_t need : group.needs) unit.needs.push_back(number[need]);
        result.push_back(std::move(unit));
      }
    }
    return result;
  }

 private:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  struct Group {
    std::vector<std::vector<std::size_t>> levels;
    std::set<std::size_t> needs;  // groups
    std::size_t nodes = 0;
    bool open = false;     // others may join
    bool all_last = true;  // nobody waits for any of its nodes
    bool all_few = true;   // no node has more tasks than a chain may
  };
  // Where a node stands.
  struct Place {
    std::size_t group, level;
  };

  bool is_last(std::size_t k) const { return waiting_[k].empty(); }

  // Whether all that waits for node k waits for these groups as well, as far as it is known.
  bool all_wait_for(std::size_t k, const std::set<std::size_t>& groups) const {
    return std::all_of(waiting_[k].begin(), waiting_[k].end(), [&](std::size_t later) {
      std::set<std::size_t> placed;
      for (std::size_t before : dependencies_[later]) {
        if (places_[before].group != kNowhere) placed.insert(places_[before].group);
      }
      const std::set<std::size_t> all = closure(placed);
      return std::includes(all.begin(), all.end(), groups.begin(), groups.end());
    });
  }

  // All groups that must be done before one that needs these.
  std::set<std::size_t> closure(const std::set<std::size_t>& needs) const {
    std::set<std::size_t> all;
    std::vector<std::size_t> waiting(needs.begin(), needs.end());
    while (!waiting.empty()) {
      const std::size_t next = waiting.back();
      waiting.pop_back();
      if (!all.insert(next).second) continue;
      const auto& further = groups_[next].needs;
      waiting.insert(waiting.end(), further.begin(), further.end());
    }
    return all;
  }

  // The level that node k would have in this group, or kNowhere.
  std::size_t level_in(std::size_t g, std::size_t k) const {
    const Group& group = groups_[g];
    if (!group.open || group.nodes == kMostNodes) return kNowhere;
    std::set<std::size_t> others;
    std::size_t level = 0;
    for (std::size_t before : dependencies_[k]) {
      if (places_[before].group != g) {
        others.insert(places_[before].group);
      } else {
        level = std::max(level, places_[before].level + 1);
      }
    }
    const std::set<std::size_t> before_node = closure(others), before_group = closure(group.needs);
    if (before_node.contains(g)) return kNowhere;
    const bool delays_group = !std::includes(before_group.begin(), before_group.end(),
                                             before_node.begin(), before_node.end());
    if (delays_group && !group.all_last) return kNowhere;
    const bool delays_node = level == 0 && !std::includes(before_node.begin(), before_node.end(),
                                                          before_group.begin(), before_group.end());
    if (delays_node && !all_wait_for(k, before_group)) return kNowhere;
    const bool chain = level > 0 || group.levels.size() > 1;
    const bool few = group.all_few && tasks_[k] <= kMostChainedTasks;
    return chain && !few ? kNowhere : level;
  }

  void add(std::size_t k) {
    const bool small = tasks_[k] > 0 && tasks_[k] <= kMostTasks;
    Place place{groups_.size(), 0};
    for (std::size_t g = 0; small && g < groups_.size(); ++g) {
      const std::size_t level = level_in(g, k);
      if (level == kNowhere) continue;
      place = {g, level};
      break;
    }
    if (place.group == groups_.size()) groups_.emplace_back();
    Group& group = groups_[place.group];
    group.levels.resize(std::max(group.levels.size(), place.level + 1));
    group.levels[place.level].push_back(k);
    ++group.nodes;
    group.open = small;
    group.all_last = group.all_last && is_last(k);
    group.all_few = group.all_few && tasks_[k] <= kMostChainedTasks;
    for (std::size_t before : dependencies_[k]) {
      if (places_[before].group != place.group) group.needs.insert(places_[before].group);
    }
    places_[k] = place;
  }

  const std::vector<std::vector<std::size_t>>& dependencies_;
  const std::vector<int>& tasks_;
  std::vector<std::vector<std::size_t>> waiting_;  // by position: the positions that wait for it
  std::vector<Group> groups_;
  std::vector<Place> places_;  // by position; nowhere before they are placed
};

using Levels = std::vector<std::vector<std::size_t>>;
using Dependencies = std::vector<std::vector<std::size_t>>;

// By node: which of these it belongs to.
std::vector<std::size_t> places_in(const std::vector<Levels>& units, std::size_t nodes) {
  std::vector<std::size_t> result(nodes);
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (const auto& level : units[u]) {
      for (std::size_t k : level) result[k] = u;
    }
  }
  return result;
}

// Starting a program of several levels costs more than a few launches, unless it is all that runs.
constexpr std::size_t kLeastLevels = 4;

// Parts units whose nodes are better launched apart: a short program between others, node by node
// but for those that nobody waits for, and the last levels of a unit that others wait for, where
// those wait for none of their nodes: a loss that is reported holds up no gradient.
std::vector<Levels> parted(const std::vector<Unit>& units, const Dependencies& dependencies) {
  std::vector<Levels> whole;
  for (const Unit& unit : units) whole.push_back(unit.levels);
  const std::vector<std::size_t> place = places_in(whole, dependencies.size());
  std::vector<bool> needed(dependencies.size());      // by another node
  std::vector<bool> waited_for(dependencies.size());  // by one of another unit
  for (std::size_t k = 0; k < dependencies.size(); ++k) {
    for (std::size_t before : dependencies[k]) {
      needed[before] = true;
      waited_for[before] = waited_for[before] || place[before] != place[k];
    }
  }
  std::vector<Levels> result;
  for (Levels& levels : whole) {
    const auto keeps = [&](const std::vector<std::size_t>& level) {
      return std::any_of(level.begin(), level.end(), [&](std::size_t k) { return waited_for[k]; });
    };
    const auto last = std::find_if(levels.rbegin(), levels.rend(), keeps);
    const auto end = last == levels.rend() ? levels.end() : last.base();
    const Levels tail(end, levels.end());
    levels.erase(end, levels.end());
    if (units.size() > 1 && levels.size() > 1 && levels.size() < kLeastLevels) {
      std::vector<std::size_t> last_ones;
      for (const auto& level : levels) {
        for (std::size_t k : level) {
          if (needed[k]) {
            result.push_back({{k}});
          } else {
            last_ones.push_back(k);
          }
        }
      }
      if (!last_ones.empty()) result.push_back({last_ones});
    } else {
      result.push_back(std::move(levels));
    }
    if (!tail.empty()) result.push_back(tail);
  }
  return result;
}

std::vector<Unit> with_needs(const std::vector<Levels>& units, const Dependencies& dependencies) {
  const std::vector<std::size_t> place = places_in(units, dependencies.size());
  std::vector<Unit> result;
  for (std::size_t u = 0; u < units.size(); ++u) {
    std::set<std::size_t> needs;
    for (const auto& level : units[u]) {
      for (std::size_t k : level) {
        for (std::size_t before : dependencies[k]) needs.insert(place[before]);
      }
    }
    needs.erase(u);
    result.push_back({units[u], {needs.begin(), needs.end()}});
  }
  return result;
}

}  // namespace

std::vector<Unit> units_of(const std::vector<std::vector<std::size_t>>& dependencies,
                           const std::vector<int>& tasks) {
  return with_needs(parted(Grouping(dependencies, tasks).in_order(), dependencies), dependencies);
}

namespace {

// What speaks for launching a unit early: that it is awaited, what the chain from it on costs, and
// how many wait for it.
struct Urgency {
  bool awaited = false;
  double chain = 0;
  std::size_t waiting = 0;
  double cost = 0;  // its own

  bool operator>(const Urgency& other) const {
    return std::tie(awaited, chain, waiting) > std::tie(other.awaited, other.chain, other.waiting);
  }
};

std::vector<Urgency> urgencies(const std::vector<Unit>& units, const std::vector<double>& costs,
                               const std::vector<bool>& needed) {
  std::vector<Urgency> result(units.size());
  for (std::size_t u = units.size(); u-- > 0;) {
    Urgency& urgency = result[u];  // its chain is that behind it so far
    for (const auto& level : units[u].levels) {
      for (std::size_t k : level) {
        urgency.awaited = urgency.awaited || needed[k];
        urgency.cost += costs[k];
      }
    }
    urgency.awaited = urgency.awaited && urgency.waiting > 0;
    urgency.chain += urgency.cost;
    for (std::size_t need : units[u].needs) {
      result[need].chain = std::max(result[need].chain, urgency.chain);
      ++result[need].waiting;
    }
  }
  return result;
}

}  // namespace

std::vector<Unit> launch_order(const std::vector<Unit>& units, const std::vector<double>& costs,
                               const std::vector<bool>& needed) {
  const std::vector<Urgency> urgency = urgencies(units, costs, needed);
  std::vector<std::size_t> order;
  std::vector<std::size_t> number(units.size(), units.size());  // by unit: its place in the order
  while (order.size() < units.size()) {
    std::size_t next = units.size();
    for (std::size_t u = 0; u < units.size(); ++u) {
      const bool ready = number[u] == units.size() &&
                         std::all_of(units[u].needs.begin(), units[u].needs.end(),
                                     [&](std::size_t need) { return number[need] < units.size(); });
      if (ready && (next == units.size() || urgency[u] > urgency[next])) next = u;
    }
    number[next] = order.size();
    order.push_back(next);
  }
  std::vector<Unit> result;
  for (std::size_t u : order) {
    result.push_back(units[u]);
    result.back().awaited = urgency[u].awaited;
    for (std::size_t& need : result.back().needs) need = number[need];
  }
  return result;
}

}  // namespace traingraph::cuda
