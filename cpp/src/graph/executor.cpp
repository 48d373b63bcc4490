// Submission and running: what a call may do, in which order, on which thread.
#include "graph/executor_job.h"

#include <chrono>
#include <cstring>

#include <traingraph/errors.h>

#include "runtime/fork_guard.h"

namespace traingraph {

using ir::kNone;
using ir::ValueId;

void ExecutionState::finish() {
  std::vector<std::function<void()>> waiting;
  {
    const std::lock_guard lock(mutex);
    done = true;
    waiting.swap(continuations);
  }
  for (const std::function<void()>& continuation : waiting) continuation();
}

void ExecutionState::raise() {
  if (error == nullptr) return;
  raised = true;
  std::rethrow_exception(error);
}

void Executor::raise_earlier_failure() {
  std::shared_ptr<ExecutionState> failure;
  {
    const std::lock_guard lock(failure_mutex_);
    std::swap(failure, failure_);
  }
  if (failure != nullptr && !failure->raised) failure->raise();
}

Execution Executor::submit(Run run, const ExecutionArguments& arguments) {
  const bool inference =
      !graph_.training || has(arguments.options, ExecutionOptions::kForwardForInference);
  if (!inference) return start(run, Mode::training, arguments);
  if (run == Run::gradient || run == Run::update) {
    throw InvalidArgument("[execute] expected no FORWARD_FOR_INFERENCE in a gradient or update");
  }
  return start(Run::forward, Mode::inference, arguments);
}

std::int64_t Executor::batch_for(Run run, const ExecutionArguments& arguments) const {
  const std::lock_guard lock(mutex_);
  const bool follows = run == Run::gradient || run == Run::update;
  const CompiledPtr& before = run == Run::gradient ? submitted_forward_ : submitted_gradient_;
  if (follows && before == nullptr) {
    throw InvalidArgument(run == Run::gradient
                              ? "[execute_gradient] expected execute_forward before it"
                              : "[execute_optimizer_update] expected execute_gradient before it");
  }
  if (arguments.batch_size < 0) {
    throw InvalidArgument("[execute] expected a batch size of at least 0 but got " +
                          std::to_string(arguments.batch_size));
  }
  const std::int64_t declared = follows ? before->batch : declared_batch(graph_);
  if (arguments.batch_size == 0 || arguments.batch_size == declared) return declared;
  if (follows) {
    throw InvalidArgument("[execute] expected batch size " + std::to_string(declared) +
                          " as in the call before but got " + std::to_string(arguments.batch_size));
  }
  if (declared == 0) {
    throw InvalidArgument(
        "[execute] expected batch size 0, because the inputs have no common "
        "extent on axis 0, but got " +
        std::to_string(arguments.batch_size));
  }
  return arguments.batch_size;
}

Execution Executor::start(Run run, Mode mode, const ExecutionArguments& arguments) {
  check_not_forked();
  raise_earlier_failure();
  if (graph_.training && graph_.loss_layer != nullptr && graph_.loss_labels.empty() &&
      mode == Mode::training) {
    throw InvalidArgument("[execute] expected loss labels declared by add_inputs but got none");
  }
  auto job = std::make_shared<Job>();
  const std::int64_t batch = batch_for(run, arguments);
  job->graph = compiled(batch, mode);
  job->run = run;
  const std::int64_t declared = declared_batch(graph_);
  if (batch != declared && !job->graph->fixed_batch.empty()) {
    throw InvalidArgument("[execute] expected batch size " + std::to_string(declared) + ", which " +
                          job->graph->fixed_batch + " fixes, but got " + std::to_string(batch));
  }
  for (const LoweredGraph::Slot& slot : job->graph->slots) {
    if (slot.tensor->state().host_is_newer) {
      stream_->run([&] { upload_if_newer(*slot.tensor); });
    }
    if (!slot.buffer.empty() && slot.tensor->state().optimizer_data_is_newer) {
      stream_->run([&] { upload_optimizer_data(*slot.tensor, graph_.optimizer->slots()); });
    }
  }
  job->timed = has(arguments.options, ExecutionOptions::kProfiling);
  job->handler = arguments.completion_handler;
  job->state = std::make_shared<ExecutionState>();
  const bool synchronous = has(arguments.options, ExecutionOptions::kSynchronous);
  {
    const std::lock_guard lock(mutex_);
    const CompiledPtr& before = run == Run::gradient ? submitted_forward_ : submitted_gradient_;
    if ((run == Run::gradient || run == Run::update) && before != job->graph) {
      throw InvalidArgument(
          "[execute] the graph was compiled again since the call before (threads, clipping or a "
          "parameter's layout changed); start again with execute_forward");
    }
    if (run == Run::forward || run == Run::step) bind_inputs(*job, arguments);
    bind_outputs(*job, arguments);
    set_step_numbers(*job);
    // What later calls may build on.
    if (run == Run::forward) {
      submitted_forward_ = mode == Mode::training ? job->graph : nullptr;
      submitted_gradient_ = nullptr;
    } else if (run == Run::gradient) {
      submitted_gradient_ = job->graph;
    } else if (run == Run::step) {
      submitted_forward_ = submitted_gradient_ = nullptr;
    }
    if (!synchronous) {
      job->state->stream = Stream::root(stream_);
      job->state->task = std::make_shared<Task>();
      // The queue keeps the executor, and with it the arena, until the work is done.
      job->state->task->work = [self = shared_from_this(), job] { self->settle(*job); };
      job->state->stream->submit(job->state->task);
      return Execution(job->state);
    }
  }
  stream_->run([&] { settle(*job); });
  job->state->raise();
  return Execution(job->state);
}

void Executor::set_step_numbers(Job& job) {
  const bool updates = job.run == Run::step || job.run == Run::update;
  if (!updates || graph_.optimizer == nullptr || job.graph->mode == Mode::inference) return;
  Optimizer& optimizer = *graph_.optimizer;
  job.sets_rates = true;
  job.learning_rate = optimizer.learning_rate();
  job.corrected_learning_rate = optimizer.corrected_learning_rate(optimizer.time_step());
  optimizer.set_time_step(optimizer.time_step() + 1);
  ++waiting_updates_;
}

void Executor::run_between(const std::function<void()>& work) { stream_->run(work); }

std::int64_t Executor::time_step() const {
  const std::lock_guard lock(mutex_);
  return graph_.optimizer->time_step() - waiting_updates_;
}

void Executor::set_time_step(std::int64_t value) {
  const std::lock_guard lock(mutex_);
  graph_.optimizer->set_time_step(value + waiting_updates_);
}

void Executor::settle(const Job& job) {
  ExecutionState& state = *job.state;
  try {
    execute(job);
  } catch (...) {
    state.error = std::current_exception();
  }
  try {
    const bool has_result =
        state.error == nullptr && job.run != Run::gradient && job.run != Run::update;
    if (job.handler) {
      job.handler(has_result ? job.graph->result_tensor : nullptr, state.error, state.seconds);
    }
  } catch (...) {
    if (state.error == nullptr) state.error = std::current_exception();
  }
  if (state.error != nullptr) {
    const std::lock_guard lock(failure_mutex_);
    if (failure_ == nullptr || failure_->raised) failure_ = job.state;
  }
  state.finish();
}

void Executor::execute(const Job& job) {
  Program& program = *job.graph->program;
  for (const auto& [value, data] : job.bound) {
    program.bind(value, static_cast<std::byte*>(data.bytes));
  }
  auto set_number = [&](ir::StepInput input, double number) {
    std::byte* at = step_block_ + static_cast<int>(input) * 8;
    const auto narrow = static_cast<float>(number);
    const bool wide = program.graph.values.empty() ||
                      program.graph.type(job.graph->result).data_type == DataType::kFloat64;
    std::memcpy(at, wide ? static_cast<const void*>(&number) : &narrow, wide ? 8 : 4);
  };
  if (job.sets_rates) {
    --waiting_updates_;
    set_number(ir::StepInput::learning_rate, job.learning_rate);
    set_number(ir::StepInput::corrected_learning_rate, job.corrected_learning_rate);
  }
  if (job.run == Run::forward || job.run == Run::step) {
    const std::int64_t count = ++*forward_count_;
    std::memcpy(step_block_ + static_cast<int>(ir::StepInput::counter) * 8, &count, 8);
    forward_ = job.graph;
    forward_run_ = job.run;
    gradient_ = nullptr;
  } else if (job.run == Run::gradient) {
    gradient_ = job.graph;
  }
  if (job.timed) {
    const auto start = std::chrono::steady_clock::now();
    program.run(job.run, nullptr);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    job.state->seconds = taken.count();
  } else {
    program.run(job.run, nullptr);
  }
  deliver(job);
}

}  // namespace traingraph
