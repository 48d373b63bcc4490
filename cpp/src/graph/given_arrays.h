#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "graph/data_binding.h"
#include "graph/device_staging.h"
#include "graph/exchanges.h"
#include "graph/job.h"
#include "graph/program_cache.h"

namespace traingraph {

// What each bound tensor was last given, which jobs are bound to. Guarded by the executor's mutex,
// except `placed`.
class GivenArrays {
 public:
  GivenArrays(const GraphState& graph, const Backend& backend, const Exchanges& exchanges)
      : graph_(graph), backend_(backend), exchanges_(exchanges), staging_(backend) {}

  // Room on the device for what this program is given.
  void place(const CompiledGraph& graph);
  // Goes on from what an executor of the same graph was given.
  void take_over(GivenArrays& before);
  // The arrays alone, which both have then.
  void take_arrays(const GivenArrays& other);

  // Copies what the caller binds between executions, for this batch size; 0: none in common.
  void write(const NamedData& data, const NamedTensors& tensors, std::int64_t batch,
             const ProgramCache& programs);
  // Everything that the job's forward pass reads; what the call brings is checked and kept.
  void bind_inputs(Job& job, const ExecutionArguments& arguments);
  // The gradients from outside that its gradient pass reads.
  void bind_gradients(Job& job);

  // Where the array is for the run; see DeviceStaging. Called by whoever holds the stream.
  std::byte* placed(const BoundArray& array, bool apart) { return staging_.placed(array, apart); }
  // Adds the entries of copies.
  void list(MemoryPlan& plan) const { staging_.list(plan); }

 private:
  void bind_group(const NamedData& data, const NamedTensors& declared, const char* what,
                  const CompiledGraph& graph);
  void give_argument(const Tensor& tensor, const ir::Type& type, const TensorData& data);
  // Whether this call has given it data.
  bool given_now(const Tensor& tensor) const;
  // What the slot's tensor was last given, else its own data; null without either.
  const GivenData* given_or_own(const BoundSlot& slot, const ir::Type& type);
  // What is given may be of another batch than the program: checked again.
  BoundArray bound(const BoundSlot& slot, const ir::Type& type, const GivenData& given);
  // A copy of data that the caller may change; arrays on the device are used where they lie.
  void stage(const Tensor& tensor, const ir::Type& type, const TensorData& data);
  void give(const Tensor& tensor, const TensorData& data);

  const GraphState& graph_;
  const Backend& backend_;
  const Exchanges& exchanges_;
  std::map<const Tensor*, GivenData> data_;
  std::uint64_t versions_ = 0;  // of data that was given
  std::uint64_t calls_ = 0;     // that brought data
  DeviceStaging staging_;       // of that data
  // User gradients that were written since the last forward pass.
  std::set<const Tensor*> written_gradients_;
};

}  // namespace traingraph
