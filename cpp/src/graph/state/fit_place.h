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
#include <traingraph/optimizer.h>

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
  std::int64_t micro_batches = 0;             // of the graph; 0: of a file that does not tell
  std::optional<std::uint64_t> shuffle_seed;  // none: as given
  std::int64_t order = 0;                     // the number of the epoch's order
  double loss_sum = 0;                        // of those steps
  std::int64_t loss_count = 0;
  std::int64_t ended = 0;             // 1: a callback has ended the fit
  std::vector<std::string> ended_by;  // the kinds of those that have
  std::optional<float> learning_rate;
  // That of the optimizer when it stood here, which a load leaves as it is: with another one the
  // caller has set it since.
  std::optional<float> optimizer_rate;
  std::optional<float> epoch_rate;        // of the epoch, once its batches have trained
  std::vector<PlacedCallback> callbacks;  // in their order
  // Of the graph when it stood here, see passes_of: with another count it stands elsewhere.
  std::int64_t passes = 0;

  // To go on with.
  std::optional<float> rate_now(const Optimizer* optimizer) const {
    const bool is_callers =
        optimizer != nullptr && optimizer_rate && optimizer->learning_rate() != *optimizer_rate;
    return is_callers ? optimizer->learning_rate() : learning_rate;
  }
  void end_by(const std::string& kind) {
    ended = 1;
    ended_by.push_back(kind);
  }
};
using FitPlacePtr = std::shared_ptr<const FitPlace>;

// Executions that have trained. `forward_count` counts those that begin a step, of which `summed`
// micro-batches are done; 0: all.
inline std::int64_t passes_of(std::int64_t forward_count, std::int64_t micro_batches,
                              std::int64_t summed) {
  return summed == 0 ? forward_count * micro_batches : (forward_count - 1) * micro_batches + summed;
}

// A fit that is over.
struct EndedFit {
  std::int64_t epoch = 0;  // its last one
  bool is_whole = true;    // no callback has ended it
  std::string by;          // those that have
  std::int64_t passes = 0;
  FitPlacePtr place = nullptr;  // behind it, for more epochs; null: its end has loaded a state
};

// That of the fit that a graph was last in the middle of; null: none.
class KeptFitPlace {
 public:
  bool runs() const { return runs_; }
  // False: one runs already. By who runs it.
  bool begin_run() { return !runs_.exchange(true); }
  void end_run() { runs_ = false; }
  void end(EndedFit ended) {
    const std::lock_guard lock(mutex_);
    place_ = nullptr;
    ended_ = std::move(ended);
  }
  // The last one, if none has begun since.
  std::optional<EndedFit> ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
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
  std::optional<EndedFit> ended_;
};

}  // namespace traingraph
