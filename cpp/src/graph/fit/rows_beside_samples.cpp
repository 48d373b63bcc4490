// Finds tensors whose rows go with the samples of a batch: a fit that brings samples in another
// order leaves them where they are.
#include "graph/fit/rows_beside_samples.h"

#include <algorithm>

#include <traingraph/loss.h>

#include "graph/lowering/lowering.h"
#include "graph/lowering/micro_batch_draws.h"
#include "ops/op.h"

namespace traingraph {
namespace {

using ir::ValueId;

class Finder {
 public:
  explicit Finder(const GraphState& state)
      : state_(state), lowered_(lower(state, 0, Mode::training)) {}

  NamedTensors find() {
    for (const BoundSlot& slot : lowered_.bound) {
      if (!slot.is_gradient()) add_if_rows(slot.name, slot.tensor);
    }
    for (const NodeRecord& node : state_.nodes) {
      const auto* loss = dynamic_cast<const Loss*>(node.layer.get());
      if (loss == nullptr) continue;
      for (const TensorPtr& source : node.sources) {
        if (state_.producer(source.get()) == nullptr) add_if_rows(source->label(), source);
      }
      if (loss->weights() != nullptr) add_if_rows(loss->weights()->label(), loss->weights());
    }
    const auto* last = dynamic_cast<const Loss*>(state_.loss_layer.get());
    if (last != nullptr && last->weights() != nullptr) {
      add_if_rows(last->weights()->label(), last->weights());
    }
    // Rows of a fixed number fix the batch.
    if (!graph().fixed_batch.empty()) add_operands();
    return std::move(found_);
  }

 private:
  ir::Graph& graph() { return lowered_.lowering.graph; }

  void add_if_rows(const std::string& name, const TensorPtr& tensor) {
    const std::int64_t rows = tensor->descriptor().shape[0];
    if (rows != 1 && rows == lowered_.lowering.declared_batch) add(name, tensor);
  }

  void add(const std::string& name, const TensorPtr& tensor) {
    if (names(found_, tensor.get())) return;
    for (const auto* group : {&state_.inputs, &state_.loss_labels, &state_.loss_label_weights}) {
      if (names(*group, tensor.get())) return;
    }
    found_.emplace_back(name, tensor);
  }

  void add_operands() {
    const std::vector<bool> of_data = values_of_data(graph());
    graph().phase = ir::Phase::forward;
    for (const ir::Node& node : graph().nodes) {
      if (node.phase != ir::Phase::forward) continue;
      std::vector<ValueId> held;
      for (ValueId input : node.inputs) {
        if (!of_data[static_cast<std::size_t>(input)] && has_rows_like(node, input)) {
          held.push_back(input);
        }
      }
      // The op takes them for samples if it fixes the batch because they are none.
      if (held.empty() || !fixes_batch(node, held, false) || fixes_batch(node, held, true))
        continue;
      for (ValueId input : held) add_sources(input);
    }
  }

  // As many as an operand has samples.
  bool has_rows_like(const ir::Node& node, ValueId value) {
    const Shape& shape = graph().type(value).shape;
    if (shape.empty() || shape[0] == 1) return false;
    return std::ranges::any_of(node.inputs, [&](ValueId other) {
      const ir::Type& type = graph().type(other);
      return type.batched && type.shape[0] == shape[0];
    });
  }

  // Where these operands are samples, or are not.
  bool fixes_batch(const ir::Node& node, const std::vector<ValueId>& operands, bool are_samples) {
    for (ValueId operand : operands) graph().value(operand).type.batched = are_samples;
    graph().fixed_batch.clear();
    ops::definition(node.op).infer({graph(), node.op, node.attributes, node.inputs});
    for (ValueId operand : operands) graph().value(operand).type.batched = false;
    return !graph().fixed_batch.empty();
  }

  void add_sources(ValueId value) {
    const ir::Value& held = graph().value(value);
    if (held.source == ir::Source::parameter) {
      const TensorPtr& tensor = lowered_.slots[static_cast<std::size_t>(held.slot)].tensor;
      add(tensor->label(), tensor);
    }
    if (held.source != ir::Source::node) return;
    const ir::Node& producer = graph().node(held.producer);
    for (ValueId input : producer.inputs) add_sources(input);
  }

  const GraphState& state_;
  LoweredGraph lowered_;
  NamedTensors found_;
};

}  // namespace

NamedTensors rows_beside_samples(const GraphState& state) { return Finder(state).find(); }

}  // namespace traingraph
