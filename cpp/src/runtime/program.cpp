#include "runtime/program.h"

#include <algorithm>

namespace traingraph {

using ir::kNone;
using ir::ValueId;

Program::Program(ir::Graph graph_in, std::unique_ptr<Executable> executable_in)
    : graph(std::move(graph_in)), executable(std::move(executable_in)) {
  roots.resize(graph.values.size());
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
  split.pointers.resize(graph.values.size() + graph.nodes.size(), nullptr);
  step.pointers = split.pointers;
  aliases_.resize(graph.values.size());
  for (std::size_t v = 0; v < roots.size(); ++v) {
    aliases_[static_cast<std::size_t>(roots[v])].push_back(static_cast<ValueId>(v));
  }
}

std::size_t Program::arena_bytes() const { return std::max(split.arena_bytes, step.arena_bytes); }

void Program::bind_arena(std::byte* base) {
  if (base == nullptr) return;  // a backend that computes nothing
  for (ProgramVariant* variant : {&split, &step}) {
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
    split.pointers[static_cast<std::size_t>(alias)] = address;
    step.pointers[static_cast<std::size_t>(alias)] = address;
  }
}

const std::byte* Program::address(Run run, ValueId value) const {
  const ProgramVariant& variant = run == Run::step ? step : split;
  return variant.pointers[static_cast<std::size_t>(value)];
}

void Program::run(Run run, double* seconds) const {
  const ProgramVariant& variant = run == Run::step ? step : split;
  const Schedule& schedule = variant.schedule;
  std::size_t first = 0;
  std::size_t last = schedule.order.size();
  switch (run) {
    case Run::forward:
      last = schedule.forward_end;
      break;
    case Run::gradient:
      first = schedule.forward_end;
      last = schedule.gradient_end;
      break;
    case Run::update:
      first = schedule.gradient_end;
      break;
    case Run::step:
      break;
  }
  executable->run(schedule.order.data() + first, last - first, variant.pointers.data(), seconds);
}

}  // namespace traingraph
