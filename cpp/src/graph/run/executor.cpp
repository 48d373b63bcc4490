// Submission and running: what a call may do, in which order, on which thread.
#include "graph/run/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <vector>

#include <traingraph/errors.h>

#include "graph/data/data_binding.h"
#include "graph/lowering/check_integers.h"
#include "graph/run/check_numerics.h"
#include "graph/run/outputs.h"
#include "graph/run/profile.h"
#include "graph/run/update_count.h"
#include "runtime/device_memory.h"
#include "runtime/diagnostics.h"
#include "runtime/threads/fork_guard.h"

namespace traingraph {

TensorData Executor::predict(const ExecutionArguments& arguments, const SampleRows& samples,
                             const ChosenRows& rows) {
  {
    const std::lock_guard lock(mutex_);
    check_may_infer("predict");
  }
  const CompiledPtr graph = compiled(arguments.batch_size, Mode::prediction, true);
  if (!graph->result_has_batch) {
    throw ShapeError("[predict] expected a result with the samples on axis 0 but got " +
                     to_string(graph->program->graph.type(graph->result).shape));
  }
  const CallDetails details{
      .call = "predict", .rows = rows, .samples = samples, .keeps_bound = true, .predicts = true};
  return submit(Run::forward, arguments, details).result();
}

void Executor::check_inference(const ExecutionArguments& arguments, const CallDetails& details) {
  Job job;
  job.rows = arguments.batch_size;
  job.graph = compiled(job.rows, inference_mode_, true);
  const std::lock_guard lock(mutex_);
  bound_inputs_.check_given(*job.graph, arguments, details);
  bound_inputs_.check_none_is_missing(*job.graph, arguments, details);
  if (details.scored != nullptr) *details.scored = readable_results_.room_for_scored(job);
}

void Executor::check_none_is_missing(const ExecutionArguments& arguments,
                                     const CallDetails& details) {
  check_labels_are_declared(details.call);
  const CompiledPtr graph = compiled(arguments.batch_size, Mode::training, false);
  const std::lock_guard lock(mutex_);
  bound_inputs_.check_none_is_missing(*graph, arguments, details);
}

void Executor::check_integers(const ExecutionArguments& samples, std::int64_t batch) {
  const CompiledPtr graph = compiled(batch, Mode::training, false);
  const std::lock_guard lock(mutex_);
  bound_inputs_.check_integers(*graph, samples);
}

void Executor::check_labels_are_declared(const char* call) const {
  if (graph_.loss_layer == nullptr || !graph_.loss_labels.empty()) return;
  throw InvalidArgument(std::string("[") + call +
                        "] expected loss labels declared by add_inputs but got none");
}

// Before anything is compiled for it, too, which may take that memory as well.
void Executor::check_may_infer(const char* call) const {
  if (successor_ == nullptr) submitted_.check_may_infer(call);
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

namespace {

bool has_newer_buffer(const LoweredGraph::Slot& slot) {
  return !slot.buffer.empty() && !slot.accumulates && slot.tensor->state().optimizer_data_is_newer;
}

}  // namespace

bool Executor::is_behind(const CompiledGraph& graph) const {
  if (graph.mode == Mode::training && graph_.resumed->is_there()) return true;
  return std::any_of(graph.slots.begin(), graph.slots.end(), [](const LoweredGraph::Slot& slot) {
    return slot.tensor->state().host_is_newer || has_newer_buffer(slot);
  });
}

void Executor::upload_parameters(const CompiledGraph& graph) {
  const auto is_newer = [](const LoweredGraph::Slot& slot) {
    return slot.tensor->state().host_is_newer || has_newer_buffer(slot);
  };
  if (std::ranges::none_of(graph.slots, is_newer)) return;
  stream_->run([&] {
    for (const LoweredGraph::Slot& slot : graph.slots) {
      if (slot.tensor->state().host_is_newer) {
        check_range(slot);
        upload_if_newer(*slot.tensor);
      }
      if (has_newer_buffer(slot)) upload_optimizer_data(*slot.tensor, graph_.optimizer->slots());
    }
  });
}

Execution Executor::submit(Run run, const ExecutionArguments& arguments,
                           const CallDetails& details) {
  const bool inference = details.predicts || !graph_.training ||
                         has(arguments.options, ExecutionOptions::kForwardForInference);
  if (inference && (run == Run::gradient || run == Run::update)) {
    throw InvalidArgument("[execute] expected no FORWARD_FOR_INFERENCE in a gradient or update");
  }
  if (inference) run = Run::forward;
  const Mode mode = details.predicts ? Mode::prediction
                    : inference      ? inference_mode_
                                     : Mode::training;
  check_not_forked();
  const bool synchronous = has(arguments.options, ExecutionOptions::kSynchronous);
  if (!synchronous) start_worker();
  shared_->failures.raise();
  if (mode == Mode::training) check_labels_are_declared(details.call);
  std::int64_t batch = arguments.batch_size;
  const bool asks = batch == 0 && declared_batch_ != 0 && runs_forward(run);
  if (asks) batch = rows_of(graph_, declared_batch_, arguments);
  Job job;
  job.checked = has(arguments.options, ExecutionOptions::kCheckNumerics);
  // A checked step runs its phases apart as well.
  const bool apart = run != Run::step || job.checked;
  std::unique_lock lock(mutex_);
  if (mode != Mode::training) check_may_infer(details.call);
  if (asks && arguments.inputs.empty() && arguments.loss_labels.empty()) {
    batch = bound_inputs_.bound_rows(
        declared_batch_, has(arguments.options, ExecutionOptions::kSkipWritingInputDataToDevice));
  }
  batch = job.rows = submitted_.batch_for(run, batch);
  job.graph = find_current(batch, mode, apart);
  // What takes time, or waits for the stream, is done without the mutex.
  if (job.graph == nullptr || is_behind(*job.graph)) {
    lock.unlock();
    if (job.graph == nullptr) job.graph = compiled(batch, mode, apart);
    check_may_run(*job.graph, run);
    upload_parameters(*job.graph);
    if (mode == Mode::training) resume_step(*job.graph);
    lock.lock();
  }
  if (const std::shared_ptr<Executor> successor = successor_) {
    lock.unlock();
    return successor->submit(run, arguments, details);
  }
  check_may_run(*job.graph, run);
  if (synchronous) job.graph->program->executable->expect_threads();
  job.run = run;
  job.profiled = has(arguments.options, ExecutionOptions::kPerLayerProfiling);
  job.timed = job.profiled || has(arguments.options, ExecutionOptions::kProfiling);
  job.handler = arguments.completion_handler;
  job.scored = details.scored;
  job.samples = details.samples;
  if (details.global) job.global = *details.global;
  auto state = job.state = std::make_shared<ExecutionState>();
  bind_job(job, arguments, details);
  if (!synchronous && graph_.ranks != nullptr) job.queued = graph_.ranks->queue_step();
  const StreamTurn turn = acquire_or_enqueue(job, synchronous);
  lock.unlock();
  if (!synchronous) return Execution(std::move(state));
  if (turn == StreamTurn::queued) {
    state->stream->wait(state->task);
  } else {
    run_and_settle(job);
    if (job.pending != nullptr) settle(job);
    if (turn == StreamTurn::taken) state->stream->give_back();
  }
  state->raise();
  return Execution(std::move(state));
}

void Executor::bind_job(Job& job, const ExecutionArguments& arguments, const CallDetails& details) {
  if (job.graph->mode != Mode::training) check_may_infer(details.call);
  submitted_.place(job);
  if (runs_forward(job.run)) {
    bound_inputs_.bind_inputs(job, arguments, details);
    exchanges_.note_read(*job.graph, job.bound);
  }
  if (job.run == Run::gradient) {
    exchanges_.check_read();
    bound_inputs_.bind_gradients(job);
  }
  bind_outputs(graph_, backend_, arguments.outputs, job);
}

void Executor::run_and_settle(Job& job) {
  try {
    execute(job);
  } catch (...) {
    job.state->error = std::current_exception();
    job.pending = nullptr;
    forget(job);
  }
  job.queued = nullptr;
  if (job.pending == nullptr) settle(job);
}

void Executor::execute(Job& job) {
  UpdateCount::begin(job);
  if (!readable_results_.has_before(job)) {
    throw InvalidArgument(
        "[execute] the step that this call goes on with was given up, because a call of it has "
        "failed or other state was loaded; start again with its first call");
  }
  Stream::Hold hold;
  while (!job.graph->lies_where_parameters_do()) {
    rebind_after_move(job);
    hold.take(stream_);
  }
  job.graph->program->executable->expect_threads();  // the first time on this thread
  if (runs_forward(job.run)) take_left_result();
  make_room(job);
  for (const BoundArray& array : job.bound) {
    const bool apart = array.on_device && !programs_.touches(*job.graph, array);
    job.graph->program->bind(array.value, placed(array, backend_, apart));
  }
  make_room_for_result(job);
  if (job.scored != nullptr) *job.scored = readable_results_.room_for_scored(job);
  step_numbers_.write(job);
  readable_results_.begin(job);
  if (runs_forward(job.run)) newest_pass_ = next_pass(this);
  if (defers_result(job)) carry_result(job);
  step_numbers_.during(job, [&] { run_program(job); });
  readable_results_.end(job);
  if (job.scored != nullptr) readable_results_.copy_scored(*job.scored);
  exchanges_.write(*job.graph, job.run);
  deliver(backend_, job, programs_.arena());
  if (job.state->is_left) left_ = job.state;
}

void Executor::take_left_result() {
  if (const std::shared_ptr<ExecutionState> state = left_.lock()) state->take_result();
  left_.reset();
}

void Executor::rebind_after_move(Job& job) {
  if (!runs_forward(job.run)) {
    throw InvalidArgument(
        "[execute] the graph was compiled again since the call before; start again with "
        "execute_forward");
  }
  const CompiledPtr before = job.graph;
  job.graph = compiled(job.rows, before->mode, job.run != Run::step);
  std::erase_if(job.bound, [&](BoundArray& array) {
    std::size_t slot = 0;
    while (before->bound.at(slot).value != array.value) ++slot;
    return (array.value = job.graph->bound[slot].value) == ir::kNone;
  });
  for (auto& [value, data] : job.outputs) value = job.graph->counterpart(*before, value);
}

void Executor::run_program(const Job& job) {
  Program& program = *job.graph->program;
  using Clock = std::chrono::steady_clock;
  if (job.timed) finish_work(backend_);
  const Clock::time_point start = job.timed ? Clock::now() : Clock::time_point();
  const Diagnostics* const device = job.timed ? backend_.diagnostics() : nullptr;
  const double measured = device != nullptr ? device->measured_seconds() : -1;
  std::vector<double> seconds(job.profiled ? program.graph.nodes.size() : 0);
  if (job.checked) {
    if (const auto found = program.run_checked(job.run)) {
      // A fit names the step itself.
      const std::int64_t step = job.samples.count != 0 ? 0 : step_numbers_.forward_passes();
      raise_not_finite(backend_, {*job.graph, job.run, *found, job.rows}, step, job.samples);
    }
  } else {
    program.run(job.run, job.profiled ? seconds.data() : nullptr);
  }
  if (!job.timed) return;
  finish_work(backend_);
  const bool measures = device != nullptr && measured >= 0;
  job.state->seconds = measures ? device->measured_seconds() - measured
                                : std::chrono::duration<double>(Clock::now() - start).count();
  if (job.profiled && !job.checked) {
    job.state->profile = profile_of(program, job.run, seconds, job.state->seconds);
  }
}

void Executor::settle(Job& job) {
  ExecutionState& state = *job.state;
  try {
    if (job.pending != nullptr) job.pending->take(state.result.bytes);
    if (state.error == nullptr) raise_late(job);
  } catch (...) {
    state.error = std::current_exception();
    forget(job);
  }
  try {
    const bool has_result = state.error == nullptr && runs_forward(job.run);
    if (job.handler) {
      const HandlerReads own(this);
      job.handler(has_result ? handed_result(job) : nullptr, state.error, state.seconds);
    }
  } catch (...) {
    if (state.error == nullptr) state.error = std::current_exception();
  }
  if (state.error != nullptr) shared_->failures.keep(job.state);
  state.finish();
}

void Executor::forget(const Job& job) {
  readable_results_.drop_all();
  readable_results_.give_up(job.after.step);
  step_numbers_.forget_sent();
  const std::lock_guard lock(mutex_);
  UpdateCount::undo(job);
  submitted_.begin_again(job.after.step);
}

void Executor::read(const Tensor& tensor, void* bytes, std::size_t length) {
  stream_->run([&] {
    const TensorData data = readable_results_.copy(tensor);
    std::memcpy(bytes, data.bytes, std::min(length, data.length));
  });
}

TensorData Executor::view(const Tensor& tensor) {
  TensorData data;
  stream_->run([&] { data = readable_results_.view(tensor, programs_.arena()); });
  return data;
}

TensorData Executor::gradient(const Tensor& tensor) const {
  TensorData result;
  stream_->run([&] { result = readable_results_.copy_of_gradient(tensor); });
  if (element_count(result.shape) == element_count(tensor.descriptor().shape)) {
    result.shape = tensor.descriptor().shape;
  }
  return result;
}

void Executor::read_through(const GradientHandle& handle) {
  stream_->run([&] { readable_results_.know(handle); });
  const std::lock_guard lock(handle.gradient->state().host);
  handle.gradient->state().readers = {weak_from_this()};
  handle.gradient->state().device = graph_.device;
}

void Executor::synchronize_parameters() {
  std::vector<TensorPtr> tensors;
  {
    const std::lock_guard lock(mutex_);
    tensors = programs_.parameters();
  }
  // Where nothing is trained, too.
  if (tensors.empty()) stream_->run([] {});
  for (const TensorPtr& tensor : tensors) tensor->synchronize_data();
}

void Executor::run_between(const std::function<void()>& work) { stream_->run(work); }

}  // namespace traingraph
