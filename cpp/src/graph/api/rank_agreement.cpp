// What ranks compare before they train together, and the state that they begin with.
#include "graph/api/rank_agreement.h"

#include <string>
#include <vector>

#include <traingraph/device.h>
#include <traingraph/errors.h>

#include "distributed/beginning.h"
#include "graph/lowering/lowering.h"
#include "graph/state/rank_state.h"
#include "ir/number_text.h"

namespace traingraph {
namespace {

struct Compared {
  const char* what;
  std::string value;
};

// The numbers of layers count all that a process has made, which is its own affair.
std::string without_layer_numbers(const std::string& text) {
  std::string result;
  for (std::size_t k = 0; k < text.size(); ++k) {
    result += text[k];
    const bool begins_name = text[k] == '\'';
    const bool begins_layer = result.ends_with(" layer ");
    if (!begins_name && !begins_layer) continue;
    std::size_t end = k + 1;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    if (begins_layer || (end < text.size() && text[end] == '.')) k = end - 1;
  }
  return result;
}

std::vector<Compared> compared(const GraphState& state, const std::string& program) {
  const OptimizerPtr& optimizer = state.optimizer;
  const std::optional<DataType>& exchange = state.distributed.gradient_exchange;
  return {
      {"version", Platform::version()},
      {"batch size", std::to_string(declared_batch(state))},
      {"seed", std::to_string(state.random_seed)},
      {"number of micro-batches", std::to_string(state.micro_batches)},
      {"optimizer", optimizer == nullptr ? "none" : optimizer->description()},
      {"learning rate",
       optimizer == nullptr ? "none" : short_text(static_cast<double>(optimizer->learning_rate()))},
      {"synchronized_batch_norm", state.distributed.synchronized_batch_norm ? "true" : "false"},
      {"shard_optimizer", state.distributed.shard_optimizer ? "true" : "false"},
      {"gradient_exchange", exchange ? name(*exchange) : "none"},
      {"program", without_layer_numbers(program)},
  };
}

void check_alike(distributed::Ranks& ranks, const Compared& one) {
  const std::vector<std::string> values = ranks.all_texts(one.value);
  for (std::size_t r = 1; r < values.size(); ++r) {
    if (values[r] == values[0]) continue;
    auto [first, other] = distributed::first_difference(values[0], values[r]);
    for (std::string* line : {&first, &other}) {
      if (line->empty()) *line = "nothing";
    }
    throw InvalidArgument("[compile] expected one " + std::string(one.what) +
                          " on all ranks but got '" + first + "' on rank 0 and '" + other +
                          "' on rank " + std::to_string(r));
  }
}

}  // namespace

void check_may_be_distributed(const GraphState& state) {
  if (!state.training) {
    throw InvalidArgument(
        "[compile] expected a training graph for several ranks but got an "
        "inference graph; compile it without `distributed`");
  }
  if (state.links != nullptr) {
    throw Unsupported("[compile] linked graphs do not train over several ranks");
  }
  const std::optional<DataType>& exchange = state.distributed.gradient_exchange;
  if (exchange && *exchange != DataType::kBFloat16) {
    throw InvalidArgument(
        std::string("[compile] expected a gradient_exchange of bfloat16, or none, but got ") +
        name(*exchange));
  }
  if (state.micro_batches == 1 || state.optimizer != nullptr) return;
  throw InvalidArgument(
      "[compile] expected an optimizer for micro-batches over several ranks, "
      "which exchange gradients before its update, but got none");
}

void agree_over_ranks(const GraphState& compiled, const std::string& program, GraphState& graph) {
  distributed::Ranks& ranks = *compiled.ranks;
  for (const Compared& one : compared(compiled, program)) check_alike(ranks, one);
  distributed::RankGuard guard(&ranks);
  const Compared state{"state", entries_of_state(graph)};
  guard.done();
  check_alike(ranks, state);
  distributed::RankGuard taking(&ranks);
  take_state_of_first_rank(graph);
  taking.done();
}

}  // namespace traingraph
