#pragma once

#include <cstdint>
#include <string>

#include <traingraph/fit.h>
#include <traingraph/loss.h>

#include "graph/fit/samples.h"
#include "graph/state/fit_place.h"
#include "graph/state/graph_state.h"

// What fit, evaluate and predict take from their arguments. `call`: for messages.
namespace traingraph {

// The loss that the graph's result comes from.
const Loss& loss_of(const GraphState& state, const std::string& call);
// `scores`: with what the loss compares. Sorted by lengths where a recurrent layer asks for it.
Samples samples_of(const GraphState& state, const SampleData& data, bool scores,
                   const std::string& call);
inline SampleData data_of(const FitArguments& arguments) {
  return {arguments.inputs, arguments.loss_labels, arguments.loss_label_weights};
}
// Raise where an order would move samples, and leave rows of other data in their places. `how`:
// "shuffled; …".
void check_all_move(const GraphState& state, const SampleData& data, const std::string& how);
void check_all_are_sorted(const GraphState& state, const SampleData& data, const Samples& samples,
                          std::int64_t batch);
// At most all samples; `asked` of 0 means that of the declared tensors. Of so many ranks together.
std::int64_t batch_size_of(const GraphState& state, std::int64_t asked, std::int64_t samples,
                           const std::string& call, int ranks = 1);
// In which order a fit takes its samples, an epoch of them in so many steps. Without a seed of its
// own the graph says how many epochs its forward passes are: a checkpoint has both.
void set_order(FitPlace& place, GraphState& state, const FitArguments& arguments,
               std::int64_t steps);

}  // namespace traingraph
