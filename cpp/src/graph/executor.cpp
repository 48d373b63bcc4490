// Submission and running: what a call may do, in which order, on which thread.
#include "graph/executor_job.h"

#include <chrono>
#include <cstring>

#include <traingraph/errors.h>

#include "graph/data_binding.h"
#include "runtime/fork_guard.h"

namespace traingraph {

using ir::kNone;
using ir::ValueId;

namespace {

// Guards the optimizers' counts: graphs that share an optimizer may have a thread each.
std::mutex& counting() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

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
  return start(Run::forward, inference_mode_, arguments);
}

Executor::CompiledPtr Executor::program_for(std::int64_t batch, Mode mode) {
  CompiledPtr graph = compiled(batch, mode);
  if (batch != declared_batch_ && !graph->fixed_batch.empty()) {
    throw InvalidArgument("[execute] expected batch size " + std::to_string(declared_batch_) +
                          ", which " + graph->fixed_batch + " fixes, but got " +
                          std::to_string(batch));
  }
  return graph;
}

TensorData Executor::predict(const ExecutionArguments& arguments) {
  return start(Run::forward, Mode::prediction, arguments).result();
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
  const std::int64_t declared = follows ? before->batch : declared_batch_;
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

// A step that reads gradients made outside cannot run in one call.
void Executor::check_may_run(const CompiledGraph& graph, Run run) const {
  if (run != Run::step) return;
  for (const BoundSlot& slot : graph.bound) {
    if (!slot.is_gradient()) continue;
    const std::string why = slot.from == BoundSlot::From::linked_gradient
                                ? "linked graphs send gradients between them"
                                : "tensor '" + graph_.user_gradients.front().of->label() +
                                      "' has a user gradient, which is written between them";
    throw InvalidArgument("[execute] expected execute_forward and execute_gradient, because " +
                          why);
  }
}

Execution Executor::start(Run run, Mode mode, const ExecutionArguments& arguments) {
  check_not_forked();
  raise_earlier_failure();
  if (mode == Mode::training && graph_.loss_layer != nullptr && graph_.loss_labels.empty()) {
    throw InvalidArgument("[execute] expected loss labels declared by add_inputs but got none");
  }
  auto job = std::make_shared<Job>();
  const std::int64_t batch = batch_for(run, arguments);
  job->graph = program_for(batch, mode);
  check_may_run(*job->graph, run);
  for (const LoweredGraph::Slot& slot : job->graph->slots) {
    if (slot.tensor->state().host_is_newer) {
      check_range(slot);
      stream_->run([&] { upload_if_newer(*slot.tensor); });
    }
    if (!slot.buffer.empty() && !slot.accumulates && slot.tensor->state().optimizer_data_is_newer) {
      stream_->run([&] { upload_optimizer_data(*slot.tensor, graph_.optimizer->slots()); });
    }
  }
  job->run = run;
  job->profiled = has(arguments.options, ExecutionOptions::kPerLayerProfiling);
  job->timed = job->profiled || has(arguments.options, ExecutionOptions::kProfiling);
  job->checked = has(arguments.options, ExecutionOptions::kCheckNumerics);
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
    place_in_step(*job, run);
    // Updates run between gradients in a step; a checked one must not have begun them.
    if (job->checked && job->run == Run::step) job->run = Run::separate_step;
    if (runs_forward(run)) bind_inputs(*job, arguments);
    if (run == Run::gradient) bind_gradients(*job);
    bind_outputs(*job, arguments);
    set_rates(*job);
    count_micro_batch(*job);
    announce_exchanges(*job);
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
      job->leaves = job->state->task->leaves = may_leave(*job);
      job->state->task->work = [self = shared_from_this(), job]() -> std::function<void()> {
        self->begin(*job);
        if (job->pending == nullptr) return nullptr;
        return [self, job] { self->settle(*job); };
      };
      job->state->stream->submit(job->state->task);
      return Execution(job->state);
    }
  }
  stream_->run([&] { begin(*job); });
  job->state->raise();
  return Execution(job->state);
}

void Executor::place_in_step(Job& job, Run run) const {
  const int count = graph_.micro_batches;
  if (count == 1 || job.graph->mode != Mode::training) return;
  if (run == Run::update) {
    if (summed_ == count) return;
    throw InvalidArgument("[execute_optimizer_update] expected " + std::to_string(count) +
                          " micro-batches before it but got " + std::to_string(summed_));
  }
  if (summed_ == count && run != Run::gradient) {
    throw InvalidArgument("[execute] expected execute_optimizer_update after " +
                          std::to_string(count) + " micro-batches");
  }
  job.starts_step = summed_ == 0;
  job.accumulates = summed_ > 0;
  job.first_row = summed_rows_;
  if (run == Run::step) job.run = summed_ + 1 == count ? Run::separate_step : Run::passes;
}

void Executor::count_micro_batch(const Job& job) {
  const int count = graph_.micro_batches;
  if (count == 1 || job.graph->mode != Mode::training) return;
  if (runs_gradient(job.run)) {
    ++summed_;
    summed_rows_ += job.graph->batch;
  }
  // Without an optimizer a full sum is read and then begun again.
  const bool full = summed_ == count && graph_.optimizer == nullptr;
  if (runs_update(job.run) || full) {
    summed_ = 0;
    summed_rows_ = 0;
  }
}

void Executor::set_rates(Job& job) {
  if (!runs_update(job.run) || graph_.optimizer == nullptr || job.graph->mode != Mode::training) {
    return;
  }
  Optimizer& optimizer = *graph_.optimizer;
  const std::lock_guard lock(counting());
  job.optimizer = graph_.optimizer;
  job.learning_rate = optimizer.learning_rate();
  job.corrected_learning_rate = optimizer.corrected_learning_rate(optimizer.time_step());
  optimizer.set_time_step(optimizer.time_step() + 1);
  ++waiting_updates_;
}

void Executor::run_between(const std::function<void()>& work) { stream_->run(work); }

std::int64_t Executor::time_step() const {
  const std::lock_guard lock(mutex_);
  const std::lock_guard count_lock(counting());
  return graph_.optimizer->time_step() - waiting_updates_;
}

void Executor::set_time_step(std::int64_t value) {
  const std::lock_guard lock(mutex_);
  const std::lock_guard count_lock(counting());
  graph_.optimizer->set_time_step(value + waiting_updates_);
}

bool Executor::may_leave(const Job& job) const {
  return !backend_.uses_host_memory() && runs_forward(job.run) && !job.handler && !job.timed &&
         !job.checked && job.outputs.empty() && job.graph->handed.empty();
}

void Executor::begin(Job& job) {
  try {
    execute(job);
  } catch (...) {
    job.state->error = std::current_exception();
    job.pending = nullptr;
    forget(job);
  }
  if (job.pending == nullptr) settle(job);
}

void Executor::settle(Job& job) {
  ExecutionState& state = *job.state;
  try {
    if (job.pending != nullptr) job.pending->take(state.result.bytes);
  } catch (...) {
    state.error = std::current_exception();
    forget(job);
  }
  try {
    const bool has_result = state.error == nullptr && runs_forward(job.run);
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

// After a failure nothing may build on the passes before it, and its update does not count.
void Executor::forget(const Job& job) {
  forward_ = gradient_ = nullptr;
  const std::lock_guard lock(mutex_);
  if (job.optimizer != nullptr) {
    const std::lock_guard count_lock(counting());
    job.optimizer->set_time_step(job.optimizer->time_step() - 1);
  }
  submitted_forward_ = submitted_gradient_ = nullptr;
  summed_ = 0;
  summed_rows_ = 0;
}

void Executor::write_step_numbers(const Job& job) {
  const Program& program = *job.graph->program;
  const bool wide = program.graph.type(job.graph->result).data_type == DataType::kFloat64;
  auto set_number = [&](ir::StepInput input, double number) {
    std::byte* at = staging_.step_numbers() + static_cast<int>(input) * 8;
    const auto narrow = static_cast<float>(number);
    std::memcpy(at, wide ? static_cast<const void*>(&number) : &narrow, wide ? 8 : 4);
  };
  auto set_count = [&](ir::StepInput input, std::int64_t count) {
    std::memcpy(staging_.step_numbers() + static_cast<int>(input) * 8, &count, 8);
  };
  if (job.optimizer != nullptr) {
    set_number(ir::StepInput::learning_rate, job.learning_rate);
    set_number(ir::StepInput::corrected_learning_rate, job.corrected_learning_rate);
  }
  if (runs_forward(job.run) && job.graph->mode == Mode::training) {
    if (job.starts_step) ++*forward_count_;
    set_count(ir::StepInput::counter, *forward_count_);
    set_count(ir::StepInput::first_row, job.first_row);
  }
  if (runs_gradient(job.run)) set_number(ir::StepInput::accumulates, job.accumulates ? 1 : 0);
  staging_.send_step_numbers(job.graph->step_inputs);
}

void Executor::execute(Job& job) {
  if (job.optimizer != nullptr) --waiting_updates_;
  const CompiledPtr& before = job.run == Run::gradient ? forward_ : gradient_;
  if (!runs_forward(job.run) && before != job.graph) {
    throw InvalidArgument(
        "[execute] the pass before this one has failed; start again with "
        "execute_forward");
  }
  Program& program = *job.graph->program;
  for (const BoundArray& array : job.bound) {
    const bool apart = array.on_device && !uses(*job.graph, array);
    program.bind(array.value, staging_.placed(array, apart));
  }
  write_step_numbers(job);
  if (runs_forward(job.run)) {
    forward_ = job.graph;
    forward_run_ = job.run;
    gradient_ = nullptr;
    forward_arrays_.swap(job.bound);
  } else if (job.run == Run::gradient) {
    gradient_arrays_.swap(job.bound);
  }
  run_program(job);
  if (runs_gradient(job.run) && job.graph->mode == Mode::training) {
    gradient_ = job.graph;
    gradient_run_ = job.run;
  }
  deliver(job);
}

void Executor::run_program(const Job& job) {
  Program& program = *job.graph->program;
  using Clock = std::chrono::steady_clock;
  if (job.timed) backend_.finish();
  const Clock::time_point start = job.timed ? Clock::now() : Clock::time_point();
  std::vector<double> seconds(job.profiled ? program.graph.nodes.size() : 0);
  if (job.checked) {
    if (const auto found = program.run_checked(job.run)) raise_not_finite(job, *found);
  } else {
    program.run(job.run, job.profiled ? seconds.data() : nullptr);
  }
  if (!job.timed) return;
  backend_.finish();
  job.state->seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (job.profiled && !job.checked) {
    job.state->profile = profile_of(program, job.run, seconds, job.state->seconds);
  }
}

}  // namespace traingraph
