// Runs a program: binds addresses of the arena and of sources, executes a range of its schedule,
// and checks results for NaN and infinity.
#include "runtime/program.h"

#include <algorithm>

namespace traingraph {

using ir::kNone;
using ir::NodeId;
using ir::ValueId;

bool may_go_on(const ir::Node& node) {
  return node.op == ir::Op::all_reduce && node.phase != ir::Phase::update;
}

std::vector<ValueId> alias_roots(const ir::Graph& graph) {
  std::vector<ValueId> roots(graph.values.size());
  for (std::size_t v = 0; v < roots.size(); ++v) roots[v] = static_cast<ValueId>(v);
  // Nodes stand in order, so a view's source already has its root.
  for (const ir::Node& node : graph.nodes) {
    if (node.op == ir::Op::reshape) {
      roots[static_cast<std::size_t>(node.outputs[0])] =
          roots[static_cast<std::size_t>(node.inputs[0])];
    }
    for (ValueId output : node.outputs) {
      const ValueId target = graph.value(output).writes;
      if (target != kNone) {
        roots[static_cast<std::size_t>(output)] = roots[static_cast<std::size_t>(target)];
      }
    }
  }
  return roots;
}

Program::Program(ir::Graph graph_in, std::unique_ptr<Executable> executable_in)
    : graph(std::move(graph_in)), executable(std::move(executable_in)), roots(alias_roots(graph)) {
  phase_schedule.pointers.resize(graph.values.size() + graph.nodes.size(), nullptr);
  step_schedule.pointers = phase_schedule.pointers;
  aliases_.resize(graph.values.size());
  for (std::size_t v = 0; v < roots.size(); ++v) {
    aliases_[static_cast<std::size_t>(roots[v])].push_back(static_cast<ValueId>(v));
  }
}

void Program::bind_arena(std::byte* base) {
  arena_ = base;
  if (base == nullptr) return;  // a backend that computes nothing
  for (ProgramVariant* variant : {&phase_schedule, &step_schedule}) {
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      const auto root = static_cast<std::size_t>(roots[v]);
      if (variant->value_offsets[root] >= 0) {
        variant->pointers[v] = base + variant->value_offsets[root];
      }
    }
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      if (variant->workspace_offsets[n] >= 0) {
        variant->pointers[graph.values.size() + n] = base + variant->workspace_offsets[n];
      }
    }
  }
}

void Program::bind(ValueId source, std::byte* address) {
  for (ValueId alias : aliases_[static_cast<std::size_t>(source)]) {
    phase_schedule.pointers[static_cast<std::size_t>(alias)] = address;
    step_schedule.pointers[static_cast<std::size_t>(alias)] = address;
  }
}

void Program::add_constant(ValueId source, std::shared_ptr<std::byte> bytes) {
  bind(source, bytes.get());
  constants.push_back({source, std::move(bytes)});
}

const std::byte* Program::address(Run run, ValueId value) const {
  return variant(run).pointers[static_cast<std::size_t>(value)];
}

Program::Range Program::range(Run run) const {
  const Schedule& schedule = variant(run).schedule;
  switch (run) {
    case Run::forward:
      return {0, schedule.forward_end};
    case Run::gradient:
      return {schedule.forward_end, schedule.gradient_end};
    case Run::update:
      return {schedule.gradient_end, schedule.order.size()};
    case Run::forward_and_gradient:
      return {0, schedule.gradient_end};
    case Run::step:
    case Run::step_by_phases:
      break;
  }
  return {0, schedule.order.size()};
}

void Program::run(Run run, double* seconds) const {
  const ProgramVariant& chosen = variant(run);
  const auto [first, last] = range(run);
  executable->run(chosen.schedule.order.data() + first, last - first, chosen.pointers.data(),
                  seconds);
}

void Program::list_checks() {
  checked_bytes_.assign(graph.values.size(), 0);
  auto check = [&](ValueId id) {
    const ir::Value& value = graph.value(id);
    if (!is_floating_point(value.type.data_type)) return false;
    checked_bytes_[static_cast<std::size_t>(id)] = ir::storage_bytes(value.type, value.layout);
    return true;
  };
  for (const ir::Node& node : graph.nodes) {
    if (node.phase == ir::Phase::update) continue;
    for (ValueId input : node.inputs) {
      const bool known = checked_bytes_[static_cast<std::size_t>(input)] != 0;
      if (graph.value(input).source != ir::Source::bound || known || !check(input)) continue;
      checked_inputs_[static_cast<std::size_t>(node.phase)].push_back(input);
    }
    if (stays_finite != nullptr && stays_finite(node)) continue;  // its operands were looked at
    for (ValueId output : node.outputs) check(output);
  }
}

bool Program::is_finite(const ProgramVariant& chosen, ValueId value) const {
  const auto v = static_cast<std::size_t>(value);
  return checked_bytes_[v] == 0 ||
         executable->all_finite(graph.type(value).data_type, chosen.pointers[v], checked_bytes_[v]);
}

std::optional<ValueId> Program::run_checked(Run run) {
  if (checked_bytes_.empty()) list_checks();
  const ProgramVariant& chosen = variant(run);
  const Range part = range(run);
  for (std::size_t phase = 0; phase < 2; ++phase) {
    if (phase == 0 ? !runs_forward(run) : !runs_gradient(run)) continue;
    for (ValueId input : checked_inputs_[phase]) {
      if (!is_finite(chosen, input)) return input;
    }
  }
  for (std::size_t k = part.first; k < part.last; ++k) {
    const NodeId* node = &chosen.schedule.order[k];
    executable->run(node, 1, chosen.pointers.data(), nullptr);
    for (ValueId output : graph.node(*node).outputs) {
      if (!is_finite(chosen, output)) return output;
    }
  }
  return std::nullopt;
}

}  // namespace traingraph
