#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <traingraph/fit.h>
#include <traingraph/loss.h>

#include "graph/state/fit_place.h"
#include "graph/state/graph_state.h"

// What a fit refuses before its first step. All raise InvalidArgument.
namespace traingraph {

inline constexpr const char* kFit = "[fit]";

void check(const FitArguments& arguments);
// Whether each epoch has the numbers that callbacks watch.
void check_monitors(const FitArguments& arguments, LossType type);
// Whether callbacks can write their files; changes none. `goes_on`: with a fit that has begun.
// Raises FileError, too.
void check_files(const FitArguments& arguments, bool goes_on);
// Whether steps of the graph change anything.
void check_trains(const TrainingGraph& graph, GraphState& state);
// Whether so many batches in each epoch make an update.
void check_updates(GraphState& state, const FitArguments& arguments, std::int64_t all_steps);
// Of one graph at a time: two would train in between each other's steps, and it remembers one
// place.
class OnlyFit {
 public:
  explicit OnlyFit(KeptFitPlace& place);
  ~OnlyFit() { place_.end_run(); }
  OnlyFit(const OnlyFit&) = delete;
  OnlyFit& operator=(const OnlyFit&) = delete;

 private:
  KeptFitPlace& place_;
};
// Whether what an EarlyStopping remembers is of epochs with a validation; none: it does not tell,
// or is another callback.
std::optional<bool> watched_validation(const std::string& kind, const NamedData& state);
// A number that an EarlyStopping cannot remember in this epoch, as of a file that was edited.
struct StrayNumber {
  std::string name, expected, got;
};
std::optional<StrayNumber> stray_number(const PlacedCallback& callback, std::int64_t epoch);
// "shuffle_seed=3", as a call would have it.
std::string shuffle_of(const FitPlace& place);
// Whether the call goes on with what a fit has begun. `begun`: where this call would begin.
void check_resumed(const FitPlace& place, const FitPlace& begun, const FitArguments& arguments);

}  // namespace traingraph
