// The running half of the executor: what one call binds, runs and hands out.
// Over 400 lines: every part works on the job of that call.
#include "graph/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include <traingraph/errors.h>

#include "graph/data_binding.h"
#include "runtime/fork_guard.h"
#include "runtime/layout_copy.h"

namespace traingraph {

using ir::kNone;
using ir::ValueId;

// Everything one execution needs, settled before it is queued.
struct Executor::Job {
  CompiledPtr graph;
  Run run = Run::forward;
  std::vector<std::pair<ValueId, TensorData>> bound;
  std::vector<std::pair<ValueId, TensorData>> outputs;
  bool sets_rates = false;
  double learning_rate = 0;
  double corrected_learning_rate = 0;
  bool timed = false;
  CompletionHandler handler;
  std::shared_ptr<ExecutionState> state;
};

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
                          " as in the call before but got " +
                          std::to_string(arguments.batch_size));
  }
  if (declared == 0) {
    throw InvalidArgument("[execute] expected batch size 0, because the inputs have no common "
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
    throw InvalidArgument("[execute] expected batch size " + std::to_string(declared) +
                          ", which " + job->graph->fixed_batch + " fixes, but got " +
                          std::to_string(batch));
  }
  for (const LoweredGraph::Slot& slot : job->graph->slots) {
    if (slot.tensor->state().host_is_newer) {
      stream_->run([&] { upload_if_newer(*slot.tensor); });
    }
  }
  job->timed = has(arguments.options, ExecutionOptions::kProfiling);
  job->handler = arguments.completion_handler;
  job->state = std::make_shared<ExecutionState>();
  const bool synchronous = has(arguments.options, ExecutionOptions::kSynchronous);
  {
    const std::lock_guard lock(mutex_);
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

void Executor::bind_group(const NamedData& data, const NamedTensors& declared, const char* what,
                          const CompiledGraph& graph) {
  for (const auto& [name, array] : data) {
    const TensorPtr* tensor = find(declared, name);
    if (tensor == nullptr) {
      throw InvalidArgument(std::string("[execute] expected ") + what + " of " +
                            names_of(declared) + " but got '" + name + "'");
    }
    for (const BoundSlot& slot : graph.bound) {
      if (slot.tensor != *tensor) continue;
      if (slot.value == kNone) continue;
      const ir::Type& type = graph.program->graph.type(slot.value);
      check_data(slot, type, array);
      check_classes(slot, type, array);
      const auto address = reinterpret_cast<std::uintptr_t>(array.bytes);
      if (address % element_bytes(type.data_type) != 0) {
        stage(*slot.tensor, type, array);
        continue;
      }
      data_[slot.tensor.get()] = array;
      staged_bytes_.erase(slot.tensor.get());
    }
  }
}

void Executor::stage(const Tensor& tensor, const ir::Type& type, const TensorData& data) {
  const std::size_t bytes = ir::storage_bytes(type, {});
  TensorData copy = data;
  if (backend_.computes()) {
    const std::shared_ptr<std::byte> memory = backend_.allocate(bytes);
    std::memcpy(memory.get(), data.bytes, bytes);
    copy.bytes = memory.get();
    copy.owner = memory;
    staged_bytes_[&tensor] = bytes;
  }
  copy.length = bytes;
  copy.data_type = type.data_type;
  copy.shape = type.shape;
  data_[&tensor] = std::move(copy);
}

void Executor::bind_inputs(Job& job, const ExecutionArguments& arguments) {
  const CompiledGraph& graph = *job.graph;
  const bool skips = has(arguments.options, ExecutionOptions::kSkipWritingInputDataToDevice);
  if (!skips) {
    bind_group(arguments.inputs, graph_.inputs, "inputs", graph);
    bind_group(arguments.loss_labels, graph_.loss_labels, "loss labels", graph);
    bind_group(arguments.loss_label_weights, graph_.loss_label_weights, "loss label weights",
               graph);
  }
  std::string missing;
  for (const BoundSlot& slot : graph.bound) {
    if (slot.value == kNone) continue;
    auto found = data_.find(slot.tensor.get());
    if (found == data_.end() && slot.tensor->data().bytes != nullptr) {
      found = data_.emplace(slot.tensor.get(), slot.tensor->data()).first;
    }
    if (found == data_.end()) {
      missing += (missing.empty() ? "'" : ", '") + slot.name + "'";
      continue;
    }
    // Data of an earlier call may be of another batch.
    check_data(slot, graph.program->graph.type(slot.value), found->second);
    job.bound.emplace_back(slot.value, found->second);
  }
  if (!missing.empty()) {
    throw InvalidArgument("[execute] expected data for " + missing + " but none was given");
  }
}

void Executor::bind_outputs(Job& job, const ExecutionArguments& arguments) const {
  for (const auto& [name, array] : arguments.outputs) {
    const TensorPtr* tensor = find(graph_.outputs, name);
    if (tensor == nullptr) {
      throw InvalidArgument("[execute] expected outputs of " + names_of(graph_.outputs) +
                            " but got '" + name + "'");
    }
    if (job.run == Run::gradient || job.run == Run::update) {
      throw InvalidArgument("[execute] output '" + name + "' is written by the forward pass");
    }
    const ValueId value = job.graph->tensors.at(tensor->get());
    check_output(name, job.graph->program->graph.type(value), array);
    job.outputs.emplace_back(value, array);
  }
}

void Executor::set_step_numbers(Job& job) {
  const bool updates = job.run == Run::step || job.run == Run::update;
  if (!updates || graph_.optimizer == nullptr || job.graph->mode == Mode::inference) return;
  Optimizer& optimizer = *graph_.optimizer;
  job.sets_rates = true;
  job.learning_rate = optimizer.learning_rate();
  job.corrected_learning_rate = optimizer.corrected_learning_rate(optimizer.time_step());
  optimizer.set_time_step(optimizer.time_step() + 1);
}

void Executor::settle(const Job& job) {
  ExecutionState& state = *job.state;
  try {
    execute(job);
  } catch (...) {
    state.error = std::current_exception();
  }
  try {
    const bool has_result = state.error == nullptr && job.run != Run::gradient &&
                            job.run != Run::update;
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
    set_number(ir::StepInput::learning_rate, job.learning_rate);
    set_number(ir::StepInput::corrected_learning_rate, job.corrected_learning_rate);
  }
  if (job.run == Run::forward || job.run == Run::step) {
    ++forward_count_;
    std::memcpy(step_block_ + static_cast<int>(ir::StepInput::counter) * 8, &forward_count_, 8);
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

TensorData Executor::copy_out(const CompiledGraph& graph, Run run, ValueId value) const {
  const ir::Value& v = graph.program->graph.value(value);
  TensorData data;
  const std::size_t bytes = ir::storage_bytes(v.type, {});
  const std::shared_ptr<std::byte[]> memory(new std::byte[bytes]());
  data.bytes = memory.get();
  data.length = bytes;
  data.data_type = v.type.data_type;
  data.shape = v.type.shape;
  data.owner = std::shared_ptr<const void>(memory, memory.get());
  const std::byte* from = graph.program->address(run, value);
  // Without memory behind the plan an address is an offset.
  if (from != nullptr && backend_.computes()) {
    copy_between_layouts(v.type, v.layout, from, {}, memory.get());
  }
  return data;
}

void Executor::deliver(const Job& job) {
  const CompiledGraph& graph = *job.graph;
  const ir::Graph& ops = graph.program->graph;
  for (const auto& [value, data] : job.outputs) {
    const std::byte* from = graph.program->address(job.run, value);
    if (from == nullptr || !backend_.computes()) continue;
    copy_between_layouts(ops.type(value), ops.value(value).layout, from, {},
                         static_cast<std::byte*>(data.bytes));
  }
  if (job.run == Run::gradient || job.run == Run::update) return;
  job.state->result = copy_out(graph, job.run, graph.result);
  if (!job.handler) return;
  // The handler may read the result tensor's host copy; a smaller batch fills its first rows.
  Tensor& tensor = *graph.result_tensor;
  if (tensor.data().bytes == nullptr) {
    const TensorDescriptor& d = tensor.descriptor();
    const std::vector<std::byte> zeros(d.allocation_bytes());
    tensor.state().data = TensorData::copy_of(zeros.data(), zeros.size(), d.data_type, d.shape);
  }
  std::memcpy(tensor.data().bytes, job.state->result.bytes,
              std::min(tensor.data().length, job.state->result.length));
}

void Executor::bind(const NamedData& data, const NamedTensors& tensors, std::int64_t batch) {
  if (batch == 0) batch = declared_batch(graph_);
  for (const auto& [name, array] : data) {
    const TensorPtr* tensor = traingraph::find(tensors, name);
    if (tensor == nullptr) {
      throw InvalidArgument("[bind_and_write_data] expected names of " + names_of(tensors) +
                            " but got '" + name + "'");
    }
    BoundSlot slot{name, *tensor, kNone, 0};
    ir::Type type{(*tensor)->descriptor().data_type, (*tensor)->descriptor().shape, false};
    if (batch != 0) type.shape[0] = batch;
    check_data(slot, type, array);
    const std::lock_guard lock(mutex_);
    stage(**tensor, type, array);
  }
}

void Executor::read(const Tensor& tensor, void* bytes, std::size_t length) {
  stream_->run([&] {
    const std::string subject = "[tensor '" + tensor.label() + "'] ";
    if (forward_ == nullptr) {
      throw InvalidArgument(subject + "no forward pass has computed it, or its memory was reused");
    }
    const auto found = forward_->tensors.find(&tensor);
    const bool known = found != forward_->tensors.end() && found->second != kNone;
    const ir::Graph& ops = forward_->program->graph;
    const bool bound = known && ops.value(found->second).source != ir::Source::node;
    if (!known || (!bound && !ops.value(found->second).keep)) {
      throw InvalidArgument(subject +
                            "is not readable: its memory is reused; declare it with add_outputs");
    }
    const TensorData data = copy_out(*forward_, forward_run_, found->second);
    std::memcpy(bytes, data.bytes, std::min(length, data.length));
  });
}

TensorData Executor::gradient(const Tensor& parameter) const {
  TensorData result;
  stream_->run([&] {
    const std::string subject = "[gradient of '" + parameter.label() + "'] ";
    if (gradient_ == nullptr) {
      throw InvalidArgument(subject + "expected a separate execute_gradient before reading it");
    }
    const auto found = gradient_->gradients.find(&parameter);
    if (found == gradient_->gradients.end() || found->second == kNone) {
      throw InvalidArgument(subject + "is not computed: the parameter is frozen or nothing flows");
    }
    result = copy_out(*gradient_, Run::gradient, found->second);
    result.shape = parameter.descriptor().shape;
  });
  return result;
}

void Executor::synchronize_parameters() {
  std::vector<TensorPtr> tensors;
  {
    const std::lock_guard lock(mutex_);
    for (const CompiledPtr& program : programs_) {
      for (const LoweredGraph::Slot& slot : program->slots) {
        if (slot.buffer.empty() && std::find(tensors.begin(), tensors.end(), slot.tensor) == tensors.end()) {
          tensors.push_back(slot.tensor);
        }
      }
    }
  }
  for (const TensorPtr& tensor : tensors) tensor->synchronize_data();
}

}  // namespace traingraph
