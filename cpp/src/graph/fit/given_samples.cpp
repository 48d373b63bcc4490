// Reads the arrays that fit, evaluate and predict are given.
#include "graph/fit/given_samples.h"

#include <algorithm>
#include <limits>

#include <traingraph/data_movement.h>
#include <traingraph/errors.h>
#include <traingraph/lstm.h>

#include "graph/data/data_binding.h"
#include "graph/fit/label_values.h"
#include "graph/fit/rows_beside_samples.h"
#include "graph/run/executor.h"

namespace traingraph {

namespace {

// A seed that a checkpoint has as a negative number could not be given to a fit.
constexpr std::uint64_t kMostSeed = std::numeric_limits<std::int64_t>::max();

// The inputs that have lengths of sequences, which have to descend in a batch.
std::vector<std::string> lengths_in(const GraphState& state) {
  const auto is_integer = [](const auto& input) {
    return input.second->descriptor().data_type == DataType::kInt32;
  };
  if (std::ranges::none_of(state.inputs, is_integer)) return {};
  std::vector<std::string> names;
  const std::vector<NodeRecord> nodes = state.ordered_nodes();
  for (const NodeRecord& node : nodes) {
    if (dynamic_cast<const LSTM*>(node.layer.get()) == nullptr) continue;
    const Tensor* lengths = node.sources.back().get();
    const auto shows = [&lengths](const NodeRecord& other) {
      return dynamic_cast<const Reshape*>(other.layer.get()) != nullptr &&
             other.results.front().get() == lengths;
    };
    for (auto at = std::ranges::find_if(nodes, shows); at != nodes.end();
         at = std::ranges::find_if(nodes, shows)) {
      lengths = at->sources.front().get();
    }
    const auto is_it = [lengths](const auto& input) { return input.second.get() == lengths; };
    const auto found = std::ranges::find_if(state.inputs, is_it);
    if (found == state.inputs.end() || !is_integer(*found)) continue;
    if (std::ranges::find(names, found->first) == names.end()) names.push_back(found->first);
  }
  return names;
}

}  // namespace

const Loss& loss_of(const GraphState& state, const std::string& call) {
  const auto* given = dynamic_cast<const Loss*>(state.loss_layer.get());
  if (given != nullptr) return *given;
  const std::lock_guard lock(structure());
  const Loss* last = nullptr;
  for (const NodeRecord& node : state.ordered_nodes()) {
    if (const auto* loss = dynamic_cast<const Loss*>(node.layer.get())) last = loss;
  }
  if (last == nullptr) throw InvalidArgument(call + " expected a graph with a loss layer");
  return *last;
}

Samples samples_of(const GraphState& state, const SampleData& data, bool scores,
                   const std::string& call) {
  const std::lock_guard lock(structure());
  Samples samples(declared_batch(state), call);
  samples.add(data.inputs, state.inputs, "inputs", &ExecutionArguments::inputs);
  samples.add(data.loss_labels, state.loss_labels, "loss labels", &ExecutionArguments::loss_labels);
  samples.add(data.loss_label_weights, state.loss_label_weights, "loss label weights",
              &ExecutionArguments::loss_label_weights);
  if (samples.count() == 0) throw InvalidArgument(call + " expected samples but got none");
  samples.sort_by(lengths_in(state));
  if (!scores) return samples;
  if (const auto* loss = dynamic_cast<const Loss*>(state.loss_layer.get())) {
    check_label_values(data.loss_labels, loss->descriptor().type, call);
  }
  for (const auto& [name, label] : state.loss_labels) {
    const auto is_given = [&name = name](const auto& given) { return given.first == name; };
    if (std::ranges::any_of(data.loss_labels, is_given)) continue;
    if (state.constants.contains(label)) continue;
    throw InvalidArgument(call + " expected labels for '" + name + "' but none were given");
  }
  return samples;
}

void check_all_move(const GraphState& state, const SampleData& data, const std::string& how) {
  const auto refuse = [&how](const std::string& what, const char* kind) {
    throw InvalidArgument("[fit] expected samples of '" + what + "' too" + kind +
                          ", whose rows stay in their places while the others are " + how);
  };
  const auto check = [&](const NamedTensors& declared, const NamedData& given, const char* kind) {
    for (const auto& [name, tensor] : declared) {
      const auto is_it = [&what = name](const auto& data) { return data.first == what; };
      if (tensor->descriptor().shape[0] == 1 || std::ranges::any_of(given, is_it)) continue;
      refuse(name, kind);
    }
  };
  const std::shared_ptr<const GraphState> now = state.snapshot();
  check(now->inputs, data.inputs, "");
  check(now->loss_labels, data.loss_labels, "");
  check(now->loss_label_weights, data.loss_label_weights, ", label weights");
  const NamedTensors beside = rows_beside_samples(*now);
  if (!beside.empty()) refuse(beside.front().first, "");
}

void check_all_are_sorted(const GraphState& state, const SampleData& data, const Samples& samples,
                          std::int64_t batch) {
  samples.check_lengths(batch, false);
  const bool moves = samples.is_sorted() && !samples.descend(batch);
  if (moves) check_all_move(state, data, "sorted by their lengths; pass them");
}

std::int64_t batch_size_of(const GraphState& state, std::int64_t asked, std::int64_t samples,
                           const std::string& call, int ranks) {
  if (asked < 0) {
    throw InvalidArgument(call + " expected a batch size of at least 0 but got " +
                          std::to_string(asked));
  }
  const std::lock_guard lock(structure());
  const std::int64_t batch = asked != 0 ? asked : declared_batch(state);
  if (batch == 0) {
    throw InvalidArgument(call + " expected inputs with a common extent on axis 0 but got " +
                          declared_shapes(state));
  }
  return batch > samples / ranks ? samples : batch * ranks;
}

void set_order(FitPlace& place, GraphState& state, const FitArguments& arguments,
               std::int64_t steps) {
  place.order = arguments.first_epoch;
  place.shuffle_seed = arguments.shuffle_seed;
  if (!arguments.shuffle) {
    if (!arguments.shuffle_seed) return;
    throw InvalidArgument("[fit] expected no shuffle_seed where shuffle is off but got " +
                          std::to_string(*arguments.shuffle_seed));
  }
  if (arguments.shuffle_seed) return;
  state.current_executor("fit")->run_between([&] {
    const std::lock_guard lock(structure());
    place.shuffle_seed = state.random_seed & kMostSeed;
    place.order = *state.forward_count * state.micro_batches / steps + 1;
  });
}

}  // namespace traingraph
