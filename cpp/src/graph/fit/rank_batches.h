// What a fit over several ranks does beside that of one: it takes this rank's part of each global
// batch, and agrees with the others on losses, ends and what callbacks have changed.
#pragma once

#include <functional>

#include <traingraph/fit.h>

#include "distributed/beginning.h"
#include "graph/fit/samples.h"
#include "graph/state/graph_state.h"

namespace traingraph {

// Of so many samples from `first` on, which all ranks train on together, those of this rank; of one
// rank all. A rank that has none is given the first one, which does not count.
Samples::Batch& batch_of_rank(const GraphState& state, Samples& samples, std::int64_t first,
                              std::int64_t rows);
// Raises where a rank cannot train on its part of so many samples; on all ranks alike.
void check_batch_of_ranks(GraphState& state, std::int64_t rows);

inline int count_of_ranks(const GraphState& state) {
  return state.ranks == nullptr ? 1 : state.ranks->size();
}

inline bool is_first_rank(const GraphState& state) {
  return state.ranks == nullptr || state.ranks->rank() == 0;
}

// On all ranks but the first: callbacks that write files, and those of the caller, are asked
// nowhere else, and progress is shown there. EarlyStopping is asked everywhere.
FitArguments arguments_of_rank(const GraphState& state, const FitArguments& arguments);

// Callbacks that are files, here or on rank 0.
std::vector<const Checkpoint*> checkpoints_among(const std::vector<FitCallbackPtr>& callbacks);
// Raises InvalidArgument where a file would be written amid the micro-batches of a step, of which
// each rank has a sum of its own. `epoch`: steps of one; 0: nobody knows.
void check_whole_steps(const GraphState& state, const std::vector<const Checkpoint*>& files,
                       std::int64_t epoch);
// What rank 0 does alone, and callbacks that are asked elsewhere do not: where ranks have parts of
// the optimizer's buffers, the others attend.
void by_first_rank(GraphState& state, const std::function<void()>& work);

// Whether all ranks say so.
bool is_agreed(const GraphState& state, bool own);
// Those of rank 0 on all of them: whether a callback has ended the fit, and the learning rate.
void take_from_first_rank(const GraphState& state, std::int64_t& ended, Optimizer* optimizer);
// `prepare` is all that a rank can refuse of a fit, and fills its place. Begins the fit on all
// ranks or on none: where one refuses it, or is to begin another one or from other parameters, all
// raise. False where it is over, as `prepare` says.
bool begin_over_ranks(const TrainingGraph& graph, GraphState& state, const FitPlace& place,
                      const FitArguments& arguments, const std::function<bool()>& prepare);
// "metrics=[top_2, f1]".
std::string text_of_metrics(const std::vector<std::string>& metrics);

}  // namespace traingraph
