// How several ranks share the state of a graph.
#include "graph/state/rank_state.h"

#include <span>

#include "distributed/ranks.h"
#include "graph/checkpoint/copied_state.h"
#include "graph/checkpoint/replaced_state.h"
#include "runtime/memory/parameter_store.h"

namespace traingraph {

void give_parts(const GraphState& state) {
  const Contents contents = contents_of(*state.snapshot(), true);
  run_between(state, [&] {
    for (const auto& [name, tensor] : with_buffers(contents)) {
      copy_optimizer_data(*tensor, contents.slots);
    }
    check_no_step_has_begun(contents, state);
  });
}

std::string entries_of_state(const GraphState& state) {
  const Contents contents = contents_of(*state.snapshot(), true);
  check_no_step_has_begun(contents, state);
  std::string entries;
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    const TensorDescriptor& d = tensor.descriptor();
    entries += name + " " + traingraph::name(d.data_type) + " " + to_string(d.shape) + "\n";
  };
  for (const NamedTensors* group : {&contents.parameters, &contents.scaling}) {
    for (const auto& [name, tensor] : *group) add(name, *tensor);
  }
  for (const auto& [name, tensor] : with_buffers(contents)) {
    for (const std::string& slot : contents.slots) add(slot_name(name, slot), *tensor);
  }
  for (const std::string& name : contents.numbers) entries += name + "\n";
  return entries;
}

void take_state_of_first_rank(GraphState& state) {
  const Contents contents = contents_of(*state.snapshot(), true);
  distributed::Ranks& ranks = *state.ranks;
  const bool takes = ranks.rank() != 0;
  const auto tell = [&ranks](const TensorData& data) {
    ranks.broadcast({static_cast<std::byte*>(data.bytes), data.length});
  };
  run_between(state, [&] {
    if (takes) {
      give_up_step(false, "rank 0", state);
      state.fit_place->set(nullptr);
    }
    for (const NamedTensors* group : {&contents.parameters, &contents.scaling}) {
      for (const auto& [name, tensor] : *group) {
        const TensorData data = copy_of(*tensor);
        tell(data);
        if (!takes) continue;
        {
          const std::lock_guard lock(tensor->state().host);
          make_host_copy(*tensor);
        }
        replace_parameter(state, tensor, data);
      }
    }
    for (const auto& [name, tensor] : with_buffers(contents)) {
      std::vector<TensorData> buffers = copy_optimizer_data(*tensor, contents.slots);
      for (const TensorData& data : buffers) tell(data);
      if (takes) replace_optimizer_data(*tensor, std::move(buffers), contents.slots);
    }
    for (const std::string& name : contents.numbers) {
      std::int64_t number = number_of(state, name);
      ranks.broadcast(std::as_writable_bytes(std::span(&number, 1)));
      if (takes) replace_number(state, name, number);
    }
  });
}

}  // namespace traingraph
