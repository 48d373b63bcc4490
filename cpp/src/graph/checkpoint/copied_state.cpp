// Copies of a graph's state, and what else a checkpoint asks of it, between two passes.
#include "graph/checkpoint/copied_state.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <traingraph/errors.h>

#include "graph/run/executor.h"
#include "graph/run/update_count.h"
#include "runtime/memory/parameter_store.h"

namespace traingraph {
namespace {

std::set<const Tensor*> tensors_of(const NamedTensors& named) {
  std::set<const Tensor*> tensors;
  for (const auto& [name, tensor] : named) tensors.insert(tensor.get());
  return tensors;
}

// A step that was loaded has sums of what was trained where it was saved.
bool sums_gradients_of(const BegunStep& begun, const NamedTensors& trained) {
  const std::set<const Tensor*> tensors = tensors_of(trained);
  return begun.sums.size() == trained.size() &&
         std::ranges::all_of(begun.sums,
                             [&](const auto& sum) { return tensors.contains(sum.first.get()); });
}

}  // namespace

void run_between(const GraphState& state, const std::function<void()>& work) {
  const std::shared_ptr<Executor> executor = state.newest_executor();
  if (executor == nullptr) return work();
  executor->run_between(work);
}

BegunStepPtr begun_step(const GraphState& state) {
  const std::shared_ptr<Executor> executor = state.newest_executor();
  return executor != nullptr ? executor->begun_step(state.snapshot()->changes)
                             : state.resumed->get();
}

std::int64_t number_of(const GraphState& state, const std::string& name) {
  const std::lock_guard lock(structure());
  if (name == kForwardCount) return *state.forward_count;
  if (name == kRandomSeed) return static_cast<std::int64_t>(state.random_seed);
  return UpdateCount::time_step(*state.optimizer);
}

void check_sums_are_whole(const GraphState& state) {
  if (state.ranks == nullptr) return;
  throw InvalidArgument(
      "[checkpoint] expected a whole step over several ranks but got one of micro-batches that has "
      "begun, of which each rank has a sum of its own; execute the rest of its micro-batches");
}

void check_no_step_has_begun(const Contents& contents, const GraphState& state) {
  const BegunStepPtr begun = begun_step(state);
  if (begun != nullptr && sums_gradients_of(*begun, contents.summed)) check_sums_are_whole(state);
}

TensorData copy_of(const Tensor& tensor) {
  const TensorDescriptor& d = tensor.descriptor();
  TensorData data = TensorData::copy_of(nullptr, 0, d.data_type, d.shape);
  tensor.copy_to(data.bytes, data.length);
  return data;
}

NamedTensors with_buffers(const Contents& contents) {
  const std::set<const Tensor*> resting = tensors_of(contents.resting);
  const std::set<const Tensor*> updated = tensors_of(contents.updated);
  NamedTensors result;
  for (const auto& [name, tensor] : contents.parameters) {
    const bool rests =
        resting.contains(tensor.get()) && has_optimizer_data(*tensor, contents.slots);
    if (rests || updated.contains(tensor.get())) result.emplace_back(name, tensor);
  }
  return result;
}

NamedData copy_of(const Contents& contents, const GraphState& state) {
  NamedData result;
  for (const NamedTensors* group : {&contents.parameters, &contents.scaling}) {
    for (const auto& [name, tensor] : *group) result.emplace_back(name, copy_of(*tensor));
  }
  for (const auto& [name, tensor] : with_buffers(contents)) {
    std::vector<TensorData> buffers = copy_optimizer_data(*tensor, contents.slots);
    for (std::size_t k = 0; k < buffers.size(); ++k) {
      result.emplace_back(slot_name(name, contents.slots[k]), std::move(buffers[k]));
    }
  }
  auto add_number = [&](const std::string& name, std::int64_t number) {
    result.emplace_back(name, TensorData::copy_of(&number, sizeof number, DataType::kInt64, {}));
  };
  for (const std::string& name : contents.numbers) add_number(name, number_of(state, name));
  const BegunStepPtr begun = state.training ? begun_step(state) : nullptr;
  if (begun == nullptr || !sums_gradients_of(*begun, contents.summed)) return result;
  check_sums_are_whole(state);
  add_number(kMicroBatches, begun->micro_batches);
  add_number(kSummed, begun->summed);
  add_number(kSummedRows, begun->rows);
  std::map<const Tensor*, const TensorData*> sums;
  for (const auto& [of, sum] : begun->sums) sums.emplace(of.get(), &sum);
  for (const auto& [name, tensor] : contents.summed) {
    result.emplace_back(sum_name(name), *sums.at(tensor.get()));
  }
  return result;
}

}  // namespace traingraph
