#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mps/nodes/graph_plan.h"
#include "mps/recording/recording.h"

namespace traingraph::mps {

// What an encoding of a graph has recorded. Later ones over images of the same kind record it
// again: to ask every kernel takes as long as a GPU takes for some of them. Data sources are asked
// as ever, and are handed the same states again, unless somebody has kept one.
class GraphReplay {
 public:
  // All steps. The second encoding of a kind is noted, those behind it repeat it.
  void encode(GraphEncoding& e);
  void visit_owned(OwnershipVisitor& visitor) const {
    for (const Stretch& stretch : stretches_) visitor(stretch.state);
  }

 private:
  // Encodings up to a call of a data source, and what that is handed.
  struct Stretch {
    Excerpt excerpt;
    GraphStep* step = nullptr;  // null behind the last call
    std::size_t place = GraphPlan::kNone;
    StatePtr state;
    std::int64_t readings = 0;  // left when it is handed over
  };
  // A storage that the excerpts name: one that stays, or one of those that an encoding brings.
  struct Named {
    StoragePtr own;
    std::size_t brought = 0;
  };
  struct Result {
    std::size_t place;
    ImageDescriptor all;
  };

  void find_kind(const GraphEncoding& e);
  bool add(const GraphEncoding& e, const Image& image);
  void note(GraphEncoding& e);
  bool is_current() const;
  // False, with nothing encoded, where a state was kept.
  bool repeat(GraphEncoding& e);

  std::vector<std::uint64_t> kind_, last_kind_;  // empty: none that can be repeated
  std::vector<const StoragePtr*> brought_;       // with the given images, then with results
  bool is_noted_ = false;
  bool has_numbers_ = false;  // they change from run to run, and only kernels know them
  std::vector<Stretch> stretches_;
  std::vector<Named> named_;
  std::vector<Result> results_;
};

}  // namespace traingraph::mps
