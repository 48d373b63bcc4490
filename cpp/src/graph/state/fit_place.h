// Where a fit stands that has not ended: a checkpoint holds it, and a later fit goes on from it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <traingraph/graph.h>
#include <traingraph/mutex.h>

namespace traingraph {

// One of the fit's callbacks.
struct PlacedCallback {
  std::string kind;        // FitCallback::kind; "": of a file that does not tell
  NamedData state = {};    // what it remembers
  bool has_heard = false;  // of the epoch, once all its steps have trained
};

struct FitPlace {
  std::int64_t epoch = 1;    // its number
  std::int64_t steps = 0;    // of its batches so many have trained
  std::int64_t samples = 0;  // 0, and a batch size of 0: a function makes the batches
  std::int64_t batch_size = 0;
  std::optional<std::uint64_t> shuffle_seed;  // none: as given
  std::int64_t order = 0;                     // the number of the epoch's order
  double loss_sum = 0;                        // of those steps
  std::int64_t loss_count = 0;
  std::int64_t ended = 0;  // 1: a callback has ended the fit
  std::optional<float> learning_rate;
  std::optional<float> epoch_rate;        // of the epoch, once its batches have trained
  std::vector<PlacedCallback> callbacks;  // in their order
  // Of the graph when it stood here, see passes_of: with another count it stands elsewhere.
  std::int64_t passes = 0;
};
using FitPlacePtr = std::shared_ptr<const FitPlace>;

// Executions that have trained. `forward_count` counts those that begin a step, of which `summed`
// micro-batches are done; 0: all.
inline std::int64_t passes_of(std::int64_t forward_count, std::int64_t micro_batches,
                              std::int64_t summed) {
  return summed == 0 ? forward_count * micro_batches : (forward_count - 1) * micro_batches + summed;
}

// That of the fit that a graph was last in the middle of; null: none.
class KeptFitPlace {
 public:
  // False: one runs already. By who runs it.
  bool begin_run() { return !runs_.exchange(true); }
  void end_run() { runs_ = false; }
  // A fit up to this epoch is over, after so many passes.
  void end(std::int64_t epoch, std::int64_t passes) {
    const std::lock_guard lock(mutex_);
    place_ = nullptr;
    ended_ = {epoch, passes};
  }
  // Whether one up to this epoch is, and nothing has trained since.
  bool has_ended(std::int64_t epoch, std::int64_t passes) const {
    const std::lock_guard lock(mutex_);
    return ended_ && epoch <= ended_->first && passes == ended_->second;
  }
  FitPlacePtr get() const {
    const std::lock_guard lock(mutex_);
    return place_;
  }
  void set(FitPlacePtr place) {
    const std::lock_guard lock(mutex_);
    place_.swap(place);
    ended_ = std::nullopt;
  }

 private:
  mutable Mutex mutex_;
  std::atomic<bool> runs_ = false;
  FitPlacePtr place_;
  std::optional<std::pair<std::int64_t, std::int64_t>> ended_;
};

}  // namespace traingraph
