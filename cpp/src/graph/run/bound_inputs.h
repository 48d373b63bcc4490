// The arrays that each bound tensor was given, from which a job takes its inputs and user
// gradients.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "graph/data/data_binding.h"
#include "graph/data/device_staging.h"
#include "graph/program/program_cache.h"
#include "graph/run/exchanges.h"
#include "graph/run/job.h"

namespace traingraph {

// What the tensors of a graph were given, for all executors that it gets on one device.
struct GivenInputs {
  std::map<const Tensor*, InputData> data;  // entries stay: slots of programs lead to them
  std::uint64_t versions = 0;               // of data that was given
  std::uint64_t calls = 0;                  // that brought data
};

// Guarded by the executor's mutex.
class BoundInputs {
 public:
  // Goes on from what `before` was given, unless that is null or on another device.
  BoundInputs(const GraphState& graph, const Backend& backend, const Exchanges& exchanges,
              const BoundInputs* before);

  // The program's slots lead to what its tensors are given, and get memory on the device for it; on
  // the host where they are to be filled up.
  void place(CompiledGraph& graph);
  // The arrays of another graph over the same tensors, which both have then.
  void take_arrays(const BoundInputs& other);

  // Copies what the caller binds between executions, for this batch size; 0: none in common. User
  // gradients are as large as what they are for is in the forward run, whose program may be null;
  // without `copies` they are used in place where kernels can.
  void write(const NamedData& data, const NamedTensors& tensors, std::int64_t batch,
             const Passes& forward, const ProgramCache& programs, bool copies);
  // The rows that arrays bound between executions have in common, or 0; with `skips` of those that
  // no call has replaced.
  std::int64_t bound_rows(std::int64_t declared_batch, bool skips) const;
  // Everything that the job's forward pass reads; what the call brings is checked and kept.
  void bind_inputs(Job& job, const ExecutionArguments& arguments, const CallDetails& details);
  // Raise what bind_inputs would of a call with so many rows, and change nothing: of the arrays
  // that it brings, and of what it lacks.
  void check_given(const CompiledGraph& graph, const ExecutionArguments& arguments,
                   const CallDetails& details) const;
  void check_none_is_missing(const CompiledGraph& graph, const ExecutionArguments& arguments,
                             const CallDetails& details);
  // The ranges of integers alone, of samples of many batches: lengths are sorted in each.
  void check_integers(const CompiledGraph& graph, const ExecutionArguments& samples) const;
  // The gradients from outside that its gradient pass reads.
  void bind_gradients(Job& job);

  // Adds the entries of copies.
  void list(MemoryPlan& plan) const;
  // Of copies that come and go, where kernels use the caller's other arrays in place; else 0.
  std::size_t copied_bytes() const;

 private:
  void bind_group(const NamedData& data, const NamedTensors& declared, const char* what,
                  const Job& job, const CallDetails& details);
  // Raises for a name that nobody declared, of a null tensor, and for a constant.
  void check_takes_data(const TensorPtr* tensor, const std::string& name,
                        const NamedTensors& declared, const char* what,
                        const CallDetails& details) const;
  // Adds the slot to those of which an error says that they have no data.
  void add_missing(std::string& missing, const BoundSlot& slot) const;
  // Whether this call or a binding has given it data, since a linked graph has computed it.
  bool is_given_for_link(const BoundSlot& slot) const;
  // What the call reads of a tensor: its own argument, else what was bound, else the tensor's own
  // data. A call that skips writing means the newest of argument and binding; one that names no
  // data may have that of the call before. Null without any.
  const StoredData* select(const BoundSlot& slot, bool skips, bool names_data);
  // The tensor's own data; null without.
  const StoredData* from_tensor(const BoundSlot& slot);
  // What no argument of this call is may be of another batch than the program, or have other
  // numbers than it had: checked again.
  BoundArray bound(const BoundSlot& slot, const Job& job, const StoredData& stored);
  // A copy of data that the caller may change; arrays on the device are used where they lie.
  void copy(InputData& input, StoredData& stored, const ir::Type& type, const TensorData& data);
  // In place where kernels on the host can read it there, else by a copy.
  void use(InputData& input, StoredData& stored, const ir::Type& type, const TensorData& data);
  void store(StoredData& stored, const TensorData& data);

  const GraphState& graph_;
  const Backend& backend_;
  const Exchanges& exchanges_;
  const std::shared_ptr<GivenInputs> inputs_;
  std::map<const Tensor*, DeviceSlot> filled_;  // on the host; entries stay
  // User gradients that were written since the last forward pass.
  std::set<const Tensor*> written_gradients_;
};

}  // namespace traingraph
