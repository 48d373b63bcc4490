// Membership of linked graphs: who imports which tensor, which exchange buffer belongs to it, and
// merging of sets.
#include "graph/state/link_set.h"

#include <algorithm>
#include <set>

namespace traingraph {

std::vector<std::shared_ptr<GraphState>> LinkSet::states() const {
  std::vector<std::shared_ptr<GraphState>> result;
  for (const std::weak_ptr<GraphState>& member : members) {
    if (std::shared_ptr<GraphState> state = member.lock()) result.push_back(std::move(state));
  }
  return result;
}

bool LinkSet::imports(const GraphState& reader, const Tensor* tensor) const {
  const std::lock_guard lock(structure());
  if (!reader.reads(tensor) || reader.producer(tensor) != nullptr) return false;
  for (const auto& state : states()) {
    if (state->number != reader.number && state->producer(tensor) != nullptr) return true;
  }
  return false;
}

bool LinkSet::is_fed(const Tensor* tensor) const {
  const std::lock_guard lock(structure());
  const std::vector<std::shared_ptr<GraphState>> all = states();
  std::vector<const Tensor*> open{tensor};
  std::set<const Tensor*> seen{tensor};
  while (!open.empty()) {
    const Tensor* one = open.back();
    open.pop_back();
    for (const auto& state : all) {
      const bool is_input = names(state->inputs, one) || names(state->loss_labels, one) ||
                            names(state->loss_label_weights, one);
      const bool is_constant =
          std::any_of(state->constants.begin(), state->constants.end(),
                      [&](const TensorPtr& constant) { return constant.get() == one; });
      if (is_input && !is_constant) return true;
      const NodeRecord* node = state->producer(one);
      if (node == nullptr) continue;
      for (const TensorPtr& source : node->sources) {
        if (seen.insert(source.get()).second) open.push_back(source.get());
      }
    }
  }
  return false;
}

std::vector<std::shared_ptr<GraphState>> LinkSet::readers(const GraphState& producer,
                                                          const Tensor* tensor,
                                                          bool that_train) const {
  const std::lock_guard lock(structure());
  std::vector<std::shared_ptr<GraphState>> result;
  for (const auto& state : states()) {
    if (state->number == producer.number || !imports(*state, tensor)) continue;
    const bool stops = std::any_of(state->stopped.begin(), state->stopped.end(),
                                   [&](const TensorPtr& t) { return t.get() == tensor; });
    if (!that_train || (state->training && !stops)) result.push_back(state);
  }
  return result;
}

Exchange& LinkSet::exchange(const Tensor* tensor, std::uint64_t reader) {
  for (Exchange& known : exchanges) {
    if (known.tensor == tensor && known.reader == reader) return known;
  }
  Exchange& made = exchanges.emplace_back();
  made.tensor = tensor;
  made.reader = reader;
  return made;
}

void LinkSet::join(const std::vector<std::shared_ptr<GraphState>>& states) {
  auto all = std::make_shared<LinkSet>();
  std::vector<std::shared_ptr<GraphState>> members;
  auto add = [&](const std::shared_ptr<GraphState>& state) {
    if (std::find(members.begin(), members.end(), state) == members.end()) members.push_back(state);
  };
  for (const auto& state : states) {
    add(state);
    if (state->links == nullptr) continue;
    for (const auto& linked : state->links->states()) add(linked);
  }
  for (const auto& state : members) {
    all->members.push_back(state);
    // Programs write to the exchanges of their own set: none goes on with an older one.
    if (state->links != nullptr) Stream::merge(all->stream, state->links->stream);
    const std::lock_guard lock(structure());
    state->links = all;
    ++state->changes;
  }
}

}  // namespace traingraph
