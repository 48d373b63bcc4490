#pragma once

#include <functional>
#include <string>
#include <vector>

#include <traingraph/fit.h>

#include "graph/state/fit_place.h"
#include "graph/state/graph_state.h"

namespace traingraph {

// Executions that have trained, once all that were submitted are done.
std::int64_t passes_now(GraphState& state);

// A fit that stands there is over: the graph keeps that, and `progress` tells who has ended it.
void end_fit(GraphState& state, const FitPlace& place, FitProgress& progress);
// Whether one that is to go on where the graph stands is over, as who was interrupted when it
// returned does not know.
bool is_over(GraphState& state, const FitArguments& arguments, FitProgress& progress);

// Where a fit that goes on stands before its first step, of which `epochs` is the last epoch.
void tell_place(const FitPlace& place, int epochs, FitProgress& progress);

// Whether two paths, however they are spelled, are those of one file, which need not be there yet.
bool is_one_file(const std::string& first, const std::string& second);
// Whether there is a fit to go on with: FitArguments::resume.
bool is_there_to_go_on(const std::string& path);
// Where it stands, of the checkpoint, which is loaded, or the graph. `check` may refuse it: then
// nothing has changed. Raises InvalidArgument where the graph stands in none.
FitPlacePtr loaded_place(GraphState& state, const std::string& path,
                         const std::function<void(const FitPlace&)>& check);

// Where no file is at FitArguments::resume, and none of these will be.
void warn_of_missing_file(const FitArguments& arguments,
                          const std::vector<const Checkpoint*>& files);
// Of the place, or of who has set another one since; a file's goes first.
void restore_rate(const FitPlace& place, const std::string& path, Optimizer* optimizer);
// What the graph remembers, with the rate to go on with, and forgets; null: nothing.
FitPlacePtr taken_place(GraphState& state, const Optimizer* optimizer);
// That again, if the graph stands there still.
bool is_put_back(GraphState& state, const FitPlacePtr& taken, const FitPlace& now);

// The callbacks of a call, and on_epoch behind them, of which none has heard of an epoch yet.
std::vector<PlacedCallback> placed_callbacks(const FitArguments& arguments);
// What callbacks remember at a place, and the optimizer's learning rate.
void take_states(const Optimizer* optimizer, const std::vector<FitCallbackPtr>& callbacks,
                 FitPlace& place);
// Before the first step of the next epoch, of which nobody has heard.
void move_to_next_epoch(FitPlace& place);
// The same where a fit goes on: with what those of `before` remember, and whether they have heard.
// Each has a partner of its kind, in their order. Raises InvalidArgument where one that keeps state
// has none; the others may come, go and move.
std::vector<PlacedCallback> resumed_callbacks(const FitPlace& before,
                                              const FitArguments& arguments);

}  // namespace traingraph
