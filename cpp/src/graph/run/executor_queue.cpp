// Where a job goes: to the calling thread, or into the queue of its stream.
#include <memory>
#include <utility>

#include "graph/run/executor.h"
#include "graph/run/update_count.h"
#include "runtime/device_memory.h"

namespace traingraph {

void Executor::count(Job& job) {
  UpdateCount::submit(job, graph_.optimizer);
  submitted_.count(job);
  exchanges_.announce(*job.graph, job.run);
}

Executor::StreamTurn Executor::acquire_or_enqueue(Job& job, bool synchronous) {
  Stream* const stream = (job.state->stream = Stream::root(stream_)).get();
  if (synchronous && stream->take_if_free()) {
    try {
      count(job);
    } catch (...) {
      stream->give_back();
      throw;
    }
    return StreamTurn::taken;
  }
  const auto task = std::make_shared<Task>();
  Tasks one(1, task);
  const auto queued = std::make_shared<Job>();
  // The queue keeps the executor, and with it the arena, until the work is done.
  task->work = [self = shared_from_this(), queued]() -> std::function<void()> {
    self->run_and_settle(*queued);
    if (queued->pending == nullptr) return nullptr;
    return [self, queued] { self->settle(*queued); };
  };
  count(job);  // from here on nothing fails
  job.state->task = task;
  job.defers_result = task->defers_rest = !synchronous && defers_result(job);
  *queued = std::move(job);
  if (!synchronous) {
    stream->submit(std::move(one));
    return StreamTurn::queued;
  }
  if (stream->take_place(one)) return StreamTurn::queued;
  job = std::move(*queued);
  job.state->task = nullptr;
  return StreamTurn::held;
}

bool Executor::defers_result(const Job& job) const {
  return !uses_host_memory(backend_) && runs_forward(job.run) && !job.handler && !job.timed &&
         !job.checked && job.outputs.empty() && job.graph->sent.empty();
}

}  // namespace traingraph
