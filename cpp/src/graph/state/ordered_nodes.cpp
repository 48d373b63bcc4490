#include <algorithm>
#include <map>

#include <traingraph/errors.h>

#include "graph/state/graph_state.h"

namespace traingraph {

std::vector<NodeRecord> GraphState::ordered_nodes() const {
  std::vector<const NodeRecord*> open;
  for (const GraphPtr& graph : graphs) {
    for (const NodeRecord& node : graph->state().nodes) open.push_back(&node);
  }
  for (const NodeRecord& node : nodes) open.push_back(&node);
  std::map<const Tensor*, std::size_t> computed;  // by the node of this number
  for (std::size_t n = 0; n < open.size(); ++n) {
    for (const TensorPtr& result : open[n]->results) computed.emplace(result.get(), n);
  }
  // As if one went through the nodes again and again and took those whose sources are there: the
  // round of a node is that of its latest source, or one more where that stands behind it.
  std::vector<std::size_t> waits(open.size(), 0), round(open.size(), 0);
  std::vector<std::vector<std::size_t>> readers(open.size());
  for (std::size_t n = 0; n < open.size(); ++n) {
    for (const TensorPtr& source : open[n]->sources) {
      const auto found = computed.find(source.get());
      if (found == computed.end()) continue;
      readers[found->second].push_back(n);
      ++waits[n];
    }
  }
  std::vector<std::size_t> done;
  for (std::size_t n = 0; n < open.size(); ++n) {
    if (waits[n] == 0) done.push_back(n);
  }
  for (std::size_t k = 0; k < done.size(); ++k) {
    for (const std::size_t reader : readers[done[k]]) {
      round[reader] = std::max(round[reader], round[done[k]] + (done[k] > reader ? 1 : 0));
      if (--waits[reader] == 0) done.push_back(reader);
    }
  }
  if (done.size() < open.size()) throw InternalError("[graph] nodes wait for each other");
  std::sort(done.begin(), done.end(), [&](std::size_t a, std::size_t b) {
    return round[a] != round[b] ? round[a] < round[b] : a < b;
  });
  std::vector<NodeRecord> order;
  for (const std::size_t n : done) order.push_back(*open[n]);
  return order;
}

}  // namespace traingraph
