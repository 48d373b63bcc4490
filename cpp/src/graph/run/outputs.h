#pragma once

#include <cstddef>
#include <memory>

#include "graph/run/job.h"

namespace traingraph {

// The caller's arrays for declared outputs, checked against what the job's run computes.
void bind_outputs(const GraphState& state, const Backend& backend, const NamedData& outputs,
                  Job& job);
// Before the run: makes what deliver() needs memory for. A step that has run is not to fail.
void make_room_for_result(Job& job);
// Before the run: lets the result travel with it, where the backend does that.
void carry_result(Job& job);
// Copies them out after the run, and the result to the handle, unless it is on its way: begins to
// read it where the call may leave. Call while holding the stream.
// A large result stays in the arena, and ExecutionState::left says where.
// Raises where indices that the program looks at were outside.
void deliver(const Backend& backend, Job& job, const std::shared_ptr<std::byte>& arena);
// The same, of a job that has left.
void raise_late(Job& job);
// What the handler is given: the result tensor, or another one with the rows of the call.
TensorPtr handed_result(const Job& job);

}  // namespace traingraph
