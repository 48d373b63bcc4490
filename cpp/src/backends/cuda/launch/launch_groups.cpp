// Groups the nodes of a run into launches, and orders the launches by their critical path.
#include "backends/cuda/launch/launch_groups.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace traingraph::cuda {
namespace {

// Limits per node: in a megakernel of one level, and in one of several.
constexpr int kMostTasks = 512, kMostChainedTasks = 64;
constexpr std::size_t kMostNodes = 96;  // per megakernel
constexpr int kMostDelayedTasks = 64;   // of updates that wait for a later one

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
      // A node without dependencies is placed together with the first node that depends on it.
      if (dependencies[k].empty() && !is_last(k)) continue;
      for (std::size_t before : dependencies[k]) {
        if (places_[before].group == kNowhere) add(before);
      }
      add(k);
    }
  }

  std::vector<LaunchGroup> in_order() const {
    std::vector<LaunchGroup> result;
    std::vector<std::size_t> number(drafts_.size(), kNowhere);
    while (result.size() < drafts_.size()) {
      for (std::size_t g = 0; g < drafts_.size(); ++g) {
        const Draft& draft = drafts_[g];
        const bool ready = std::all_of(draft.needs.begin(), draft.needs.end(),
                                       [&](std::size_t u) { return number[u] != kNowhere; });
        if (number[g] != kNowhere || !ready) continue;
        number[g] = result.size();
        LaunchGroup group{draft.levels, {}};
        for (std::size_t need : draft.needs) group.needs.push_back(number[need]);
        result.push_back(std::move(group));
      }
    }
    return result;
  }

 private:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  struct Draft {
    std::vector<std::vector<std::size_t>> levels;
    std::set<std::size_t> needs;  // numbers of drafts
    std::size_t nodes = 0;
    int tasks = 0;
    bool open = false;     // further nodes may join
    bool all_last = true;  // no node depends on any of its nodes
    bool all_few = true;   // no node has more tasks than a chain allows
  };
  // The position of a node.
  struct Place {
    std::size_t group, level;
  };

  bool is_last(std::size_t k) const { return waiting_[k].empty(); }

  // Whether all nodes that depend on node k also depend on these groups, as far as known.
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

  // The transitive closure: all groups that must be done before one with these predecessors.
  std::set<std::size_t> closure(const std::set<std::size_t>& needs) const {
    std::set<std::size_t> all;
    std::vector<std::size_t> waiting(needs.begin(), needs.end());
    while (!waiting.empty()) {
      const std::size_t next = waiting.back();
      waiting.pop_back();
      if (!all.insert(next).second) continue;
      const auto& further = drafts_[next].needs;
      waiting.insert(waiting.end(), further.begin(), further.end());
    }
    return all;
  }

  // The level that node k would have in this group, or kNowhere.
  std::size_t level_in(std::size_t g, std::size_t k) const {
    const Draft& draft = drafts_[g];
    if (!draft.open || draft.nodes == kMostNodes) return kNowhere;
    std::set<std::size_t> others;
    std::size_t level = 0;
    for (std::size_t before : dependencies_[k]) {
      if (places_[before].group != g) {
        others.insert(places_[before].group);
      } else {
        level = std::max(level, places_[before].level + 1);
      }
    }
    const std::set<std::size_t> before_node = closure(others), before_group = closure(draft.needs);
    if (before_node.contains(g)) return kNowhere;
    const bool delays_group = !std::includes(before_group.begin(), before_group.end(),
                                             before_node.begin(), before_node.end());
    if (delays_group && (!draft.all_last || draft.tasks + tasks_[k] > kMostDelayedTasks)) {
      return kNowhere;
    }
    const bool delays_node = level == 0 && !std::includes(before_node.begin(), before_node.end(),
                                                          before_group.begin(), before_group.end());
    if (delays_node && !all_wait_for(k, before_group)) return kNowhere;
    const bool chain = level > 0 || draft.levels.size() > 1;
    const bool few = draft.all_few && tasks_[k] <= kMostChainedTasks;
    return chain && !few ? kNowhere : level;
  }

  void add(std::size_t k) {
    const bool small = tasks_[k] > 0 && tasks_[k] <= kMostTasks;
    Place place{drafts_.size(), 0};
    for (std::size_t g = 0; small && g < drafts_.size(); ++g) {
      const std::size_t level = level_in(g, k);
      if (level == kNowhere) continue;
      place = {g, level};
      break;
    }
    if (place.group == drafts_.size()) drafts_.emplace_back();
    Draft& draft = drafts_[place.group];
    draft.levels.resize(std::max(draft.levels.size(), place.level + 1));
    draft.levels[place.level].push_back(k);
    ++draft.nodes;
    draft.tasks += tasks_[k];
    draft.open = small;
    draft.all_last = draft.all_last && is_last(k);
    draft.all_few = draft.all_few && tasks_[k] <= kMostChainedTasks;
    for (std::size_t before : dependencies_[k]) {
      if (places_[before].group != place.group) draft.needs.insert(places_[before].group);
    }
    places_[k] = place;
  }

  const std::vector<std::vector<std::size_t>>& dependencies_;
  const std::vector<int>& tasks_;
  std::vector<std::vector<std::size_t>> waiting_;  // by position: the positions that depend on it
  std::vector<Draft> drafts_;
  std::vector<Place> places_;  // by position; kNowhere until placed
};

using Levels = std::vector<std::vector<std::size_t>>;
using Dependencies = std::vector<std::vector<std::size_t>>;

// By node: the group that contains it.
std::vector<std::size_t> places_in(const std::vector<Levels>& groups, std::size_t nodes) {
  std::vector<std::size_t> result(nodes);
  for (std::size_t u = 0; u < groups.size(); ++u) {
    for (const auto& level : groups[u]) {
      for (std::size_t k : level) result[k] = u;
    }
  }
  return result;
}

// Starting a megakernel of several levels costs more than a few launches, unless it is the whole
// run.
constexpr std::size_t kLeastLevels = 4;

// Splits groups whose nodes are better launched apart. A short megakernel between other groups is
// split into its nodes; nodes without dependents stay together. The last levels of a group become a
// group of their own if no other group depends on them, so that a reported loss does not delay a
// gradient.
std::vector<Levels> split_groups(const std::vector<LaunchGroup>& groups,
                                 const Dependencies& dependencies) {
  std::vector<Levels> whole;
  for (const LaunchGroup& group : groups) whole.push_back(group.levels);
  const std::vector<std::size_t> place = places_in(whole, dependencies.size());
  std::vector<bool> needed(dependencies.size());      // by another node
  std::vector<bool> waited_for(dependencies.size());  // by a node of another group
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
    if (groups.size() > 1 && levels.size() > 1 && levels.size() < kLeastLevels) {
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

std::vector<LaunchGroup> with_predecessors(const std::vector<Levels>& groups,
                                           const Dependencies& dependencies) {
  const std::vector<std::size_t> place = places_in(groups, dependencies.size());
  std::vector<LaunchGroup> result;
  for (std::size_t u = 0; u < groups.size(); ++u) {
    std::set<std::size_t> needs;
    for (const auto& level : groups[u]) {
      for (std::size_t k : level) {
        for (std::size_t before : dependencies[k]) needs.insert(place[before]);
      }
    }
    needs.erase(u);
    result.push_back({groups[u], {needs.begin(), needs.end()}});
  }
  return result;
}

}  // namespace

std::vector<LaunchGroup> launch_groups_of(const std::vector<std::vector<std::size_t>>& dependencies,
                                          const std::vector<int>& tasks) {
  return with_predecessors(split_groups(Grouping(dependencies, tasks).in_order(), dependencies),
                           dependencies);
}

namespace {

// The launch priority of a group: whether it is awaited, the cost of the longest chain from it on,
// and the number of groups that depend on it.
struct Urgency {
  bool awaited = false;
  double chain = 0;
  std::size_t waiting = 0;
  double cost = 0;  // of the group itself

  bool operator>(const Urgency& other) const {
    return std::tie(awaited, chain, waiting) > std::tie(other.awaited, other.chain, other.waiting);
  }
};

std::vector<Urgency> urgencies(const std::vector<LaunchGroup>& groups,
                               const std::vector<double>& costs, const std::vector<bool>& needed) {
  std::vector<Urgency> result(groups.size());
  for (std::size_t u = groups.size(); u-- > 0;) {
    Urgency& urgency = result[u];  // its chain so far excludes its own cost
    for (const auto& level : groups[u].levels) {
      for (std::size_t k : level) {
        urgency.awaited = urgency.awaited || needed[k];
        urgency.cost += costs[k];
      }
    }
    urgency.awaited = urgency.awaited && urgency.waiting > 0;
    urgency.chain += urgency.cost;
    for (std::size_t need : groups[u].needs) {
      result[need].chain = std::max(result[need].chain, urgency.chain);
      ++result[need].waiting;
    }
  }
  return result;
}

}  // namespace

std::vector<LaunchGroup> launch_order(const std::vector<LaunchGroup>& groups,
                                      const std::vector<double>& costs,
                                      const std::vector<bool>& needed) {
  const std::vector<Urgency> urgency = urgencies(groups, costs, needed);
  std::vector<std::size_t> order;
  // By group: its position in the order.
  std::vector<std::size_t> number(groups.size(), groups.size());
  while (order.size() < groups.size()) {
    std::size_t next = groups.size();
    for (std::size_t u = 0; u < groups.size(); ++u) {
      const bool ready =
          number[u] == groups.size() &&
          std::all_of(groups[u].needs.begin(), groups[u].needs.end(),
                      [&](std::size_t need) { return number[need] < groups.size(); });
      if (ready && (next == groups.size() || urgency[u] > urgency[next])) next = u;
    }
    number[next] = order.size();
    order.push_back(next);
  }
  std::vector<LaunchGroup> result;
  for (std::size_t u : order) {
    result.push_back(groups[u]);
    result.back().awaited = urgency[u].awaited;
    for (std::size_t& need : result.back().needs) need = number[need];
  }
  return result;
}

}  // namespace traingraph::cuda
