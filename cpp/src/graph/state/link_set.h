#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include <traingraph/mutex.h>

#include "graph/state/graph_state.h"
#include "runtime/backend.h"
#include "runtime/threads/stream.h"

namespace traingraph {

// Bytes that one linked graph writes and another one reads, in the plain layout. They are touched
// only by whoever holds the set's stream; `written` follows what was submitted.
struct Exchange {
  const Tensor* tensor = nullptr;
  std::uint64_t reader = 0;  // of a gradient: the number of the graph that computes it; else 0
  const Backend* backend = nullptr;  // whose memory they are in
  std::shared_ptr<std::byte> bytes;
  std::size_t capacity = 0;
  bool written = false;          // guarded by the set's mutex
  std::uint64_t written_at = 0;  // see LinkSet::events
  std::int64_t batch = 0;        // of what was written; 0: without one
  Shape shape;                   // of what was written
};

// Graphs that send tensors to each other. All run on one stream.
struct LinkSet {
  Mutex mutex;
  std::shared_ptr<Stream> stream = std::make_shared<Stream>();
  std::vector<std::weak_ptr<GraphState>> members;
  std::list<Exchange> exchanges;  // addresses stay
  // Counts executions that send values, and bindings: the later one is read.
  std::uint64_t events = 0;

  // The members that are still there.
  std::vector<std::shared_ptr<GraphState>> states() const;
  // Whether another member computes this tensor, which `reader` only reads.
  bool imports(const GraphState& reader, const Tensor* tensor) const;
  // Whether a tensor that members compute is made of what one of them is fed, and not of constants.
  bool is_fed(const Tensor* tensor) const;
  // The members that read what `producer` computes: all of them, or those that train on it.
  std::vector<std::shared_ptr<GraphState>> readers(const GraphState& producer, const Tensor* tensor,
                                                   bool that_train) const;
  // The value of a tensor, or with a reader's number its gradient from there.
  Exchange& exchange(const Tensor* tensor, std::uint64_t reader);

  // Joins the sets of these graphs.
  static void join(const std::vector<std::shared_ptr<GraphState>>& states);
};

}  // namespace traingraph
