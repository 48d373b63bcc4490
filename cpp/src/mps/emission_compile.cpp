// The compiling half of an emission: where parameters lie, and the program.
#include "mps/emission.h"

#include <algorithm>
#include <set>

#include "passes/passes.h"

namespace traingraph::mps {

using ir::kNone;
using ir::ValueId;

// What programs do not see as it lies takes the layout that a program over it has chosen before;
// where none has, that of its group's first kernel.
std::vector<passes::ParameterLayout> Emission::parameter_layouts() {
  std::vector<passes::ParameterLayout> result(lowering.parameters.size());
  const auto& storages = recording_.storages();
  std::vector<ir::Layout> preferred(storages.size());  // by group
  for (std::size_t s = 0; s < storages.size(); ++s) {
    if (!storages[s]->fixed() && !storages[s]->preferred.plain())
      preferred[alike_[s]] = storages[s]->preferred;
  }
  std::vector<int> first(storages.size(), kNone);  // by group: the slot that a kernel reads first
  std::vector<std::size_t> storage_of(result.size());
  for (const std::vector<Atom>& atoms : atoms_) {
    for (const Atom& atom : atoms) {
      if (atom.source == kNone) continue;
      storage_of[static_cast<std::size_t>(graph.value(atom.source).slot)] = atom.storage;
    }
  }
  std::vector<ValueId> unused;
  const ir::Graph live = passes::without_dead_nodes(graph, unused);
  for (const ir::Node& node : live.nodes) {
    if (node.op == ir::Op::elementwise) continue;
    for (ValueId input : node.inputs) {
      const ir::Value& value = live.value(input);
      if (value.source != ir::Source::parameter) continue;
      const std::size_t storage = storage_of[static_cast<std::size_t>(value.slot)];
      int& slot = first[alike_[storage]];
      if (slot == kNone && !storages[storage]->fixed()) slot = value.slot;
    }
  }
  for (std::size_t slot = 0; slot < result.size(); ++slot) {
    const Storage& storage = *storages[storage_of[slot]];
    const std::size_t group = alike_[storage_of[slot]];
    passes::ParameterLayout& layout = result[slot];
    if (storage.fixed()) {
      layout = {true, storage.layout, kNone};
    } else if (!preferred[group].plain()) {
      layout = {true, preferred[group], kNone};
    } else if (first[group] != static_cast<int>(slot)) {
      layout.follows = first[group];
    }
  }
  return result;
}

std::shared_ptr<CompiledRecording> Emission::compile() {
  cut();
  write();
  const std::vector<ValueId> joined = join_common_nodes(graph);
  for (std::vector<Atom>& atoms : atoms_) {
    for (Atom& atom : atoms) {
      if (atom.current != kNone) atom.current = joined[static_cast<std::size_t>(atom.current)];
    }
  }
  write_results();

  passes::PipelineRequest request;
  request.backend = &backend_;
  request.parameters = parameter_layouts();
  request.choose_parameters = true;
  auto out = std::make_shared<CompiledRecording>();
  std::vector<ValueId> now;
  out->program = passes::compile(graph, request, now);
  for (const std::vector<Atom>& atoms : atoms_) {
    for (const Atom& atom : atoms) {
      if (atom.source == kNone) continue;
      Storage& storage = *recording_.storages()[atom.storage];
      const std::size_t row =
          storage.divisible ? storage.bytes() / static_cast<std::size_t>(storage.shape[0]) : 0;
      const ValueId value = now[static_cast<std::size_t>(atom.source)];
      const ir::Layout& layout = out->program->graph.value(value).layout;
      if (!storage.fixed()) storage.preferred = layout;
      const std::size_t offset = row * static_cast<std::size_t>(atom.first);
      const std::size_t bytes = ir::storage_bytes(out->program->graph.type(value), layout);
      const bool is_aligned = offset % backend_.alignment() == 0;
      out->bindings.push_back({atom.storage, offset, value, layout,
                               is_aligned ? nullptr : backend_.allocate(bytes), bytes,
                               atom.written});
    }
  }
  const std::size_t numbers = number_values_.size();
  out->numbers = numbers == 0 ? nullptr : backend_.allocate(numbers * 8);
  out->staged.resize(numbers * 8);
  out->wide = wide_;
  for (std::size_t n = 0; n < numbers; ++n) {
    if (number_values_[n] == kNone) continue;
    out->program->bind(now[static_cast<std::size_t>(number_values_[n])],
                       out->numbers == nullptr ? nullptr : out->numbers.get() + n * 8);
  }
  return out;
}

std::vector<ValueId> join_common_nodes(ir::Graph& graph) {
  std::vector<ValueId> instead(graph.values.size());
  for (std::size_t v = 0; v < instead.size(); ++v) instead[v] = static_cast<ValueId>(v);
  std::map<std::pair<ir::Op, std::vector<ValueId>>, std::vector<ir::NodeId>> known;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    ir::Node& node = graph.nodes[n];
    for (ValueId& input : node.inputs) input = instead[static_cast<std::size_t>(input)];
    std::vector<ir::NodeId>& candidates = known[{node.op, node.inputs}];
    const auto equal = std::find_if(candidates.begin(), candidates.end(), [&](ir::NodeId id) {
      const ir::Node& other = graph.node(id);
      if (other.attributes != node.attributes) return false;
      for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        if (!(graph.type(node.outputs[k]) == graph.type(other.outputs[k]))) return false;
      }
      return true;
    });
    if (equal == candidates.end()) {
      candidates.push_back(static_cast<ir::NodeId>(n));
      continue;
    }
    const ir::Node& kept = graph.node(*equal);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      instead[static_cast<std::size_t>(node.outputs[k])] = kept.outputs[k];
    }
  }
  return instead;
}

}  // namespace traingraph::mps
