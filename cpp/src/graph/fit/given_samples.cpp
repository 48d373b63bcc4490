#include "graph/fit/given_samples.h"

#include <algorithm>

#include <traingraph/errors.h>

#include "graph/data/data_binding.h"

namespace traingraph {

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

Samples samples_of(const GraphState& state, const FitArguments& arguments, bool scores,
                   const std::string& call) {
  const std::lock_guard lock(structure());
  Samples samples(declared_batch(state));
  samples.add(arguments.inputs, state.inputs, "inputs", &ExecutionArguments::inputs);
  samples.add(arguments.loss_labels, state.loss_labels, "loss labels",
              &ExecutionArguments::loss_labels);
  samples.add(arguments.loss_label_weights, state.loss_label_weights, "loss label weights",
              &ExecutionArguments::loss_label_weights);
  if (samples.count() == 0) throw InvalidArgument(call + " expected samples but got none");
  if (!scores) return samples;
  for (const auto& [name, label] : state.loss_labels) {
    const auto is_given = [&name = name](const auto& given) { return given.first == name; };
    if (std::ranges::any_of(arguments.loss_labels, is_given)) continue;
    if (state.constants.contains(label)) continue;
    throw InvalidArgument(call + " expected labels for '" + name + "' but none were given");
  }
  return samples;
}

std::int64_t batch_size_of(const GraphState& state, std::int64_t asked, std::int64_t samples,
                           const std::string& call) {
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
  return std::min(batch, samples);
}

}  // namespace traingraph
