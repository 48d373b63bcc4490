// The compiling half of an emission: where parameters lie, and the program.
#include "mps/recording/emission.h"

#include <mutex>

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
    const std::lock_guard lock(storages[s]->device->mutex);
    if (!storages[s]->fixed() && !storages[s]->preferred.plain())
      preferred[group_of(s)] = storages[s]->preferred;
  }
  std::vector<int> first(storages.size(), kNone);  // by group: the slot that a kernel reads first
  std::vector<std::size_t> storage_of(result.size());
  for (const std::vector<StorageSlice>& slices : slices_) {
    for (const StorageSlice& slice : slices) {
      if (slice.source == kNone) continue;
      storage_of[static_cast<std::size_t>(graph.value(slice.source).slot)] = slice.storage;
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
      int& slot = first[group_of(storage)];
      if (slot == kNone && !storages[storage]->fixed()) slot = value.slot;
    }
  }
  for (std::size_t slot = 0; slot < result.size(); ++slot) {
    const Storage& storage = *storages[storage_of[slot]];
    const std::size_t group = group_of(storage_of[slot]);
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
  partition();
  write();
  const std::vector<ValueId> joined = passes::join_equal_nodes(graph);
  for (std::vector<StorageSlice>& slices : slices_) {
    for (StorageSlice& slice : slices) {
      if (slice.current != kNone) slice.current = joined[static_cast<std::size_t>(slice.current)];
    }
  }
  write_results();

  passes::PipelineRequest request;
  request.backend = &backend_;
  request.parameters = parameter_layouts();
  request.choose_parameters = true;
  auto out = std::make_shared<CompiledRecording>(backend_, wide_);
  std::vector<ValueId> now;
  out->program = passes::compile(graph, request, now);
  for (const std::vector<StorageSlice>& slices : slices_) {
    for (const StorageSlice& slice : slices) {
      if (slice.source == kNone) continue;
      Storage& storage = *recording_.storages()[slice.storage];
      const std::size_t row =
          storage.divisible ? storage.bytes() / static_cast<std::size_t>(storage.shape[0]) : 0;
      const ValueId value = now[static_cast<std::size_t>(slice.source)];
      const ir::Layout& layout = out->program->graph.value(value).layout;
      if (!storage.fixed()) {
        const std::lock_guard lock(storage.device->mutex);
        storage.preferred = layout;
      }
      const std::size_t offset = row * static_cast<std::size_t>(slice.first);
      const std::size_t bytes = ir::storage_bytes(out->program->graph.type(value), layout);
      const bool is_aligned = offset % backend_.traits().alignment == 0;
      out->bindings.push_back({slice.storage, offset, value, layout,
                               is_aligned ? nullptr : backend_.allocate(bytes), bytes,
                               slice.written});
    }
  }
  for (std::size_t n = 0; n < number_values_.size(); ++n) {
    out->numbers_read.push_back(n);
    if (number_values_[n] == kNone) continue;
    out->program->bind(now[static_cast<std::size_t>(number_values_[n])], out->numbers.address(n));
  }
  return out;
}

}  // namespace traingraph::mps
