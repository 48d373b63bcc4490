// Constant folding: ops that read only constants run once on the reference backend, and parameters
// hold their results.
#include "graph/lowering/fold_constants.h"

#include <map>

#include <traingraph/device.h>

#include "graph/lowering/check_integers.h"
#include "runtime/memory/parameter_store.h"

namespace traingraph {
namespace {

using ir::kNone;
using ir::NodeId;
using ir::ValueId;

class Folding {
 public:
  Folding(const GraphState& state, LoweredGraph& lowered)
      : state_(state), lowered_(lowered), graph_(lowered.lowering.graph) {}

  void fold() {
    find_constant();
    if (wanted_.empty()) return;
    const std::unique_ptr<Program> program = compile();
    for (std::size_t v = 0; v < part_.values.size(); ++v) {
      if (part_.values[v].source == ir::Source::parameter) bind(*program, static_cast<ValueId>(v));
    }
    const std::shared_ptr<std::byte> arena = backend_.allocate(program->arena_bytes(Run::forward));
    program->bind_arena(arena.get());
    program->run(Run::forward, nullptr);
    for (ValueId value : wanted_) replace(value, program->address(Run::forward, now(value)));
  }

 private:
  bool is_constant_source(ValueId id) const {
    const ir::Value& value = graph_.value(id);
    if (value.source != ir::Source::parameter) return false;
    const TensorPtr& tensor = lowered_.slots[static_cast<std::size_t>(value.slot)].tensor;
    const std::lock_guard lock(tensor->state().host);
    return state_.constants.contains(tensor) && tensor->data().bytes != nullptr;
  }

  // Copies the ops that read constants alone into part_, and lists what the others read of them.
  void find_constant() {
    for (const ir::Node& node : graph_.nodes) {
      if (takes(node)) {
        add(node);
        continue;
      }
      for (ValueId input : node.inputs) want(input);
    }
    for (const auto& [tensor, value] : lowered_.tensors) {
      if (graph_.value(value).keep) want(value);
    }
  }

  bool takes(const ir::Node& node) const {
    if (node.phase != ir::Phase::forward || node.inputs.empty()) return false;
    for (ValueId input : node.inputs) {
      if (!is_constant_source(input) && !part_of_.contains(input)) return false;
    }
    for (ValueId output : node.outputs) {
      const ir::Value& value = graph_.value(output);
      if (value.writes != kNone || value.type.rank() > kMaxTensorDimensions) return false;
    }
    return true;
  }

  void add(const ir::Node& node) {
    ir::Node copy = node;
    for (ValueId& input : copy.inputs) {
      const auto [found, is_new] = part_of_.try_emplace(input, kNone);
      if (is_new) found->second = add_value(graph_.value(input));
      input = found->second;
    }
    for (ValueId& output : copy.outputs) {
      ir::Value value = graph_.value(output);
      value.producer = static_cast<NodeId>(part_.nodes.size());
      const ValueId old = output;
      output = add_value(std::move(value));
      part_of_.emplace(old, output);
    }
    copy.layer = kNone;
    part_.nodes.push_back(std::move(copy));
  }

  ValueId add_value(ir::Value value) {
    value.keep = false;
    part_.values.push_back(std::move(value));
    return static_cast<ValueId>(part_.values.size()) - 1;
  }

  void want(ValueId value) {
    const auto found = part_of_.find(value);
    if (found == part_of_.end() || graph_.value(value).source != ir::Source::node) return;
    ir::Value& copy = part_.value(found->second);
    if (copy.keep) return;
    copy.keep = true;
    wanted_.push_back(value);
  }

  std::unique_ptr<Program> compile() {
    passes::PipelineRequest request;
    request.backend = &backend_;
    request.fuse = false;
    request.parameters.resize(lowered_.slots.size());
    return passes::compile(part_, request, values_);
  }

  ValueId now(ValueId value) const { return values_[static_cast<std::size_t>(part_of_.at(value))]; }

  void bind(Program& program, ValueId part_value) {
    const ValueId value = values_[static_cast<std::size_t>(part_value)];
    if (value == kNone) return;
    const int slot = part_.value(part_value).slot;
    check_range(lowered_.slots[static_cast<std::size_t>(slot)]);
    const TensorPtr& tensor = lowered_.slots[static_cast<std::size_t>(slot)].tensor;
    const std::lock_guard lock(tensor->state().host);
    held_.push_back(tensor->data());
    program.bind(value, static_cast<std::byte*>(held_.back().bytes));
  }

  // A parameter with these bytes stands where the op's result stood.
  void replace(ValueId old, const std::byte* bytes) {
    const ir::Value before = graph_.value(old);
    const ir::Type& type = before.type;
    const Shape shape = type.shape.empty() ? Shape{1} : type.shape;
    const TensorPtr tensor = Tensor::create(
        TensorDescriptor(shape, type.data_type),
        TensorData::copy_of(bytes, ir::storage_bytes(type, {}), type.data_type, shape));
    tensor->set_label("folded " + before.name);
    const ValueId value = graph_.add_source(
        ir::Source::parameter, static_cast<int>(lowered_.slots.size()), type, tensor->label());
    lowered_.slots.push_back({tensor, ""});
    for (ir::Node& node : graph_.nodes) {
      for (ValueId& input : node.inputs) {
        if (input == old) input = value;
      }
    }
    for (auto& [known, id] : lowered_.tensors) {
      if (id == old) id = value;
    }
    if (lowered_.result == old) lowered_.result = value;
    graph_.value(old).keep = false;
  }

  const GraphState& state_;
  LoweredGraph& lowered_;
  ir::Graph& graph_;
  const Backend& backend_ = backend_named(Device::reference().backend());
  ir::Graph part_;                      // the ops to run now
  std::map<ValueId, ValueId> part_of_;  // from the graph's values to part_'s
  std::vector<ValueId> values_;         // from part_'s values to the program's
  std::vector<ValueId> wanted_;         // of the graph
  std::vector<TensorData> held_;        // what the program reads
};

}  // namespace

void fold_constants(const GraphState& state, LoweredGraph& lowered) {
  Folding(state, lowered).fold();
}

}  // namespace traingraph
