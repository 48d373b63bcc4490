// CommandBuffer and ContinuingCommandBuffer: commit, the cache of compiled recordings, completed
// handlers, and commits in parts.
#include <traingraph/mps/command_buffer.h>

#include <atomic>
#include <chrono>
#include <new>
#include <utility>
#include <vector>

#include <traingraph/device.h>
#include <traingraph/errors.h>
#include <traingraph/mutex.h>

#include "mps/recording/emission.h"
#include "mps/recording/owner_of.h"
#include "mps/recording/recorded_run.h"
#include "runtime/device_memory.h"
#include "runtime/threads/fork_guard.h"
#include "runtime/threads/interruption.h"
#include "runtime/threads/waiting.h"

namespace traingraph::mps {
namespace {

std::atomic<std::uint64_t> next_buffer{1};

double now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

// With the memory of another buffer's, where there is one.
std::shared_ptr<Recording> take_recording(DeviceState& device, BufferRecord buffer) {
  std::shared_ptr<Recording> recording;
  {
    const std::lock_guard lock(device.mutex);
    recording = std::move(device.spare);
  }
  if (recording == nullptr) recording = std::make_shared<Recording>();
  recording->clear(std::move(buffer));
  return recording;
}

// Its images and kernels may go.
void give_back(DeviceState& device, std::shared_ptr<Recording> recording) {
  recording->clear({});
  const std::lock_guard lock(device.mutex);
  device.spare = std::move(recording);
}

std::shared_ptr<CompiledRecording> compiled(DeviceState& device, const Recording& recording) {
  const int threads = Platform::thread_count();
  const auto find = [&] {
    const std::lock_guard lock(device.mutex);
    return device.programs.find([&](const CompiledRecording& program) {
      return program.threads == threads && program.words == recording.words() &&
             recording.has_storage_words(program.storage_words);
    });
  };
  if (auto known = find()) return known;
  // Not under the device's mutex: others go on, and the wait for a signal's handler blocks nobody.
  const CompilationLock one_at_a_time;
  if (auto known = find()) return known;  // that another thread has compiled meanwhile
  std::vector<std::uint64_t> storage_words = recording.storage_words();
  std::shared_ptr<CompiledRecording> result;
  {
    const InterruptibleCompilation interruptible;
    result = Emission(recording, device.backend).compile();
  }
  result->words = recording.words();
  result->storage_words = std::move(storage_words);
  result->threads = threads;
  const std::lock_guard lock(device.mutex);
  ++device.compilations;
  device.programs.add(result);
  return result;
}

}  // namespace

struct CommandBuffer::State {
  explicit State(const Device& device_in)
      : device(device_in),
        number(next_buffer++),
        recording(take_recording(*device.state(), {number, fate})) {}
  explicit State(const std::shared_ptr<State>& before_in)
      : device(before_in->device),
        number(before_in->number),
        before(before_in),
        recording(take_recording(*device.state(), {number, fate})) {}
  ~State() {
    if (*fate == BufferFate::kOpen) *fate = BufferFate::kDropped;
  }

  const Device device;
  const std::uint64_t number;
  const std::shared_ptr<std::atomic<BufferFate>> fate =
      std::make_shared<std::atomic<BufferFate>>(BufferFate::kOpen);
  std::shared_ptr<State> before;         // the part that this one goes on from, until it has run
  std::shared_ptr<Recording> recording;  // null when all is done
  std::atomic<int> status{static_cast<int>(CommandBufferStatus::kNotEnqueued)};
  mutable Mutex mutex;  // guards what follows
  std::exception_ptr error;
  bool raised = false;
  double start = 0;
  double end = 0;
  std::shared_ptr<Task> task;
  // Changed by the caller before commit, and then by the run: read elsewhere under the mutex.
  struct Called {
    Handler handler;
    std::shared_ptr<const void> object;
  };
  std::vector<Called> handlers;

  void visit_owned(OwnershipVisitor& visitor) const {
    const std::lock_guard lock(mutex);
    for (const Called& called : handlers) visitor(called.object);
  }

  // What went wrong so far, or null.
  std::exception_ptr failure() {
    const std::lock_guard lock(mutex);
    return error;
  }

  // When the device is done with it.
  void settle(const CommandBufferPtr& self, RunEnd* run_end, CompiledRecording* program) {
    try {
      if (run_end != nullptr) run_end->take();
    } catch (...) {
      fail(std::current_exception());
      program->numbers.forget_sent();
    }
    for (const StoragePtr& storage : recording->storages()) {
      if (!storage->temporary()) --storage->in_flight;
    }
    {
      const std::lock_guard lock(mutex);
      end = now();
      if (error == nullptr) status = static_cast<int>(CommandBufferStatus::kCompleted);
    }
    for (const Called& called : handlers) called.handler(self);
    std::vector<Called> called;
    {
      const std::lock_guard lock(mutex);
      called.swap(handlers);
    }
    called.clear();
    before = nullptr;
    give_back(*device.state(), std::move(recording));
  }

  void drop(std::exception_ptr with) {
    *fate = BufferFate::kDropped;
    fail(std::move(with));
  }

  void fail(std::exception_ptr with) {
    const std::lock_guard lock(mutex);
    error = std::move(with);
    status = static_cast<int>(CommandBufferStatus::kError);
  }
};

Predicate::Predicate(const Device& device)
    : Predicate(std::make_shared<Buffer>(device, sizeof(std::uint32_t))) {}

Predicate::Predicate(std::shared_ptr<Buffer> buffer, std::size_t offset)
    : buffer_(std::move(buffer)), offset_(offset) {
  if (buffer_ == nullptr) throw InvalidArgument("[MPSPredicate] expected a buffer but got none");
  if (buffer_->length() % sizeof(std::uint32_t) != 0) {
    throw InvalidArgument("[MPSPredicate] expected a buffer of a multiple of 4 bytes but got " +
                          std::to_string(buffer_->length()));
  }
  if (offset % sizeof(std::uint32_t) == 0 && offset < buffer_->length()) return;
  throw InvalidArgument("[MPSPredicate] expected an offset that is a multiple of 4 below " +
                        std::to_string(buffer_->length()) + " but got " + std::to_string(offset));
}

CommandBuffer::CommandBuffer(const Device& device) : state_(std::make_shared<State>(device)) {}
CommandBuffer::~CommandBuffer() = default;

const Device& CommandBuffer::device() const { return state()->device; }
std::uint64_t CommandBuffer::number() const { return state()->number; }

BufferRecord CommandBuffer::record() const { return {state()->number, state()->fate}; }

CommandBufferStatus CommandBuffer::status() const {
  return static_cast<CommandBufferStatus>(state()->status.load());
}

Recording* CommandBuffer::recording() {
  if (status() != CommandBufferStatus::kNotEnqueued) return nullptr;
  Recording& recording = *state()->recording;
  const Predicate* predicate = condition();
  if (predicate == nullptr) {
    recording.run_always();
  } else {
    recording.run_if(predicate->buffer()->storage(), predicate->offset());
  }
  return &recording;
}

void CommandBuffer::visit_owned(OwnershipVisitor& visitor) const { visitor(state_); }

void CommandBuffer::add_completed_handler(Handler handler, std::shared_ptr<const void> object) {
  if (status() != CommandBufferStatus::kNotEnqueued) {
    throw InvalidArgument(
        "[MTLCommandBuffer] expected a handler before commit but the buffer was committed");
  }
  const std::shared_ptr<State>& state = this->state();
  const std::lock_guard lock(state->mutex);
  state->handlers.push_back({std::move(handler), std::move(object)});
}

void CommandBuffer::commit() {
  if (status() != CommandBufferStatus::kNotEnqueued) {
    throw InvalidArgument("[MTLCommandBuffer] expected one commit but the buffer was committed");
  }
  const CommandBufferPtr self = owner_of<CommandBuffer>(*this, "MTLCommandBuffer");
  // What may fail comes before what others see.
  check_not_forked();
  start_worker();
  const std::shared_ptr<State> state = this->state();
  state->recording->check_order();
  auto task = std::make_shared<Task>();
  Tasks one(1, task);
  state->status = static_cast<int>(CommandBufferStatus::kCommitted);
  const std::shared_ptr<DeviceState>& device = state->device.state();
  // A handler comes before the runs behind it.
  task->defers_rest = !uses_host_memory(device->backend) && state->handlers.empty();
  task->is_awaited = task->defers_rest || uses_host_memory(device->backend);
  try {
    std::shared_ptr<CompiledRecording> program;
    if (!state->recording->empty()) program = compiled(*device, *state->recording);
    task->work = [state, device, program, defers_rest = task->defers_rest,
                  self]() -> std::function<void()> {
      state->status = static_cast<int>(CommandBufferStatus::kScheduled);
      {
        const std::lock_guard lock(state->mutex);
        state->start = now();
      }
      std::shared_ptr<RunEnd> run_end;
      try {
        if (state->before != nullptr) {
          const std::exception_ptr failed = state->before->failure();
          if (failed != nullptr) std::rethrow_exception(failed);
        }
        if (program != nullptr) {
          run_end =
              run(*device, *program, state->recording->storages(), state->recording->numbers());
        }
      } catch (...) {
        state->fail(std::current_exception());
        if (program != nullptr) program->numbers.forget_sent();
      }
      // While the device works, so that nothing waits for it.
      if (run_end != nullptr) state->recording->keep_bytes();
      auto rest = [state, self, run_end, program] {
        state->settle(self, run_end.get(), program.get());
      };
      if (run_end != nullptr && defers_rest) return rest;
      rest();
      return nullptr;
    };
  } catch (const Error&) {
    state->drop(std::current_exception());
    throw;
  } catch (const std::bad_alloc&) {
    state->drop(std::current_exception());
    throw;
  } catch (...) {
    // What has interrupted it, as Ctrl-C: the buffer may be committed again.
    state->status = static_cast<int>(CommandBufferStatus::kNotEnqueued);
    throw;
  }
  *state->fate = BufferFate::kCommitted;
  for (const StoragePtr& storage : state->recording->storages()) {
    if (!storage->temporary()) ++storage->in_flight;
  }
  {
    const std::lock_guard lock(state->mutex);
    state->task = task;
  }
  device->stream->submit(std::move(one));
}

void CommandBuffer::wait_until_completed() {
  const std::shared_ptr<State> state = this->state();
  std::shared_ptr<Task> task;
  {
    const std::lock_guard lock(state->mutex);
    task = state->task;
  }
  if (task == nullptr && state->status == static_cast<int>(CommandBufferStatus::kNotEnqueued)) {
    throw InvalidArgument("[MTLCommandBuffer] expected a committed buffer to wait for");
  }
  if (task != nullptr) state->device.state()->stream->wait(task);
  const std::lock_guard lock(state->mutex);
  if (state->error == nullptr || state->raised) return;
  state->raised = true;
  std::rethrow_exception(state->error);
}

std::exception_ptr CommandBuffer::error() const { return state()->failure(); }

double CommandBuffer::gpu_start_time() const {
  const std::lock_guard lock(state()->mutex);
  return state()->start;
}

double CommandBuffer::gpu_end_time() const {
  const std::lock_guard lock(state()->mutex);
  return state()->end;
}

// --- parts ---------------------------------------------------------------------------------------

CommandBufferPtr CommandBuffer::next_part(const std::shared_ptr<State>& before) {
  // A temporary with readings left outlives its part: it gets bytes.
  for (const StoragePtr& storage : before->recording->storages()) {
    if (!storage->temporary()) continue;
    const bool is_read = storage->divisible ? storage->reads_left > 0 : storage.use_count() > 1;
    if (is_read) storage->kept = true;
  }
  return CommandBufferPtr(new CommandBuffer(std::make_shared<State>(before)));
}

ContinuingCommandBuffer::ContinuingCommandBuffer(CommandBufferPtr buffer)
    : CommandBuffer(std::shared_ptr<State>()) {
  if (buffer == nullptr) {
    throw InvalidArgument("[MPSCommandBuffer] expected a command buffer but got none");
  }
  if (const auto* other = dynamic_cast<const ContinuingCommandBuffer*>(buffer.get())) {
    chain_ = other->chain_;
    wrapped_ = std::move(buffer);
    return;
  }
  chain_ = std::make_shared<Chain>(Chain{std::move(buffer)});
}

ContinuingCommandBuffer::ContinuingCommandBuffer(const CommandQueue& queue)
    : ContinuingCommandBuffer(queue.make_command_buffer()) {}

const CommandBufferPtr& ContinuingCommandBuffer::command_buffer() const {
  return wrapped_ != nullptr ? wrapped_ : chain_->root;
}

void ContinuingCommandBuffer::commit_and_continue() {
  if (recording() == nullptr) {
    throw InvalidArgument(
        "[MPSCommandBuffer.commit_and_continue] expected a command buffer to encode to but got one "
        "that was committed");
  }
  CommandBufferPtr next = next_part(state());
  next->label = chain_->root->label;
  chain_->root->commit();
  chain_->root = std::move(next);
}

void ContinuingCommandBuffer::set_predicate(PredicatePtr predicate) {
  if (predicate != nullptr && predicate->buffer()->storage()->device != device().state()) {
    throw InvalidArgument("[MPSCommandBuffer.predicate] expected a buffer of device " +
                          device().name() + " but got one of another");
  }
  predicate_ = std::move(predicate);
}

void ContinuingCommandBuffer::prefetch_heap(std::size_t bytes) {
  DeviceState& device = *this->device().state();
  std::exception_ptr failed;
  device.stream->run([&] {
    try {
      device.arena.grow(bytes);
    } catch (...) {
      failed = std::current_exception();
    }
  });
  if (failed != nullptr) std::rethrow_exception(failed);
}

}  // namespace traingraph::mps
