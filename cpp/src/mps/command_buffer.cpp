#include <traingraph/mps/command_buffer.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include <traingraph/device.h>
#include <traingraph/errors.h>

#include "mps/emission.h"

namespace traingraph::mps {
namespace {

// Programs beyond this many are dropped, the longest unused first.
constexpr std::size_t kMostPrograms = 64;

std::atomic<std::uint64_t> next_buffer{1};

double now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

std::vector<std::uint64_t> key_of(const Recording& recording) {
  std::vector<std::uint64_t> key = recording.storage_words();
  key.reserve(key.size() + recording.words().size() + 2);
  key.push_back(static_cast<std::uint64_t>(Platform::thread_count()));
  key.push_back(recording.storages().size());
  key.insert(key.end(), recording.words().begin(), recording.words().end());
  return key;
}

std::uint64_t hash_of(const std::vector<std::uint64_t>& key) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (std::uint64_t word : key) hash = (hash ^ word) * 0x100000001b3ull + (hash >> 29);
  return hash;
}

std::shared_ptr<CompiledRecording> compiled(DeviceState& device, const Recording& recording) {
  std::vector<std::uint64_t> key = key_of(recording);
  const std::uint64_t hash = hash_of(key);
  const std::lock_guard lock(device.mutex);
  auto& programs = device.programs;
  for (auto it = programs.begin(); it != programs.end(); ++it) {
    if ((*it)->hash != hash || (*it)->key != key) continue;
    if (it != programs.begin()) programs.splice(programs.begin(), programs, it);
    return programs.front();
  }
  auto result = Emission(recording).compile(device.backend);
  ++device.compilations;
  result->hash = hash;
  result->key = std::move(key);
  programs.push_front(result);
  if (programs.size() > kMostPrograms) programs.pop_back();
  return result;
}

// On the stream: every address, the numbers, the run.
void run(DeviceState& device, CompiledRecording& compiled, const std::vector<StoragePtr>& storages,
         const std::vector<double>& numbers) {
  Program& program = *compiled.program;
  if (program.arena_bytes() > device.arena_bytes) {
    device.arena = device.backend.allocate(program.arena_bytes());
    device.arena_bytes = program.arena_bytes();
  }
  if (compiled.arena != device.arena.get()) {
    program.bind_arena(device.arena.get());
    compiled.arena = device.arena.get();
  }
  for (const CompiledRecording::Binding& binding : compiled.bindings) {
    std::byte* base = storages[binding.storage]->address(binding.layout);
    program.bind(binding.value, base == nullptr ? nullptr : base + binding.offset);
  }
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    const auto narrow = static_cast<float>(numbers[n]);
    std::byte* at = compiled.staged.data() + n * 8;
    if (compiled.wide[n]) {
      std::memcpy(at, &numbers[n], sizeof(double));
    } else {
      std::memcpy(at, &narrow, sizeof(float));
    }
  }
  if (!numbers.empty() && compiled.numbers != nullptr) {
    device.backend.write(compiled.numbers.get(), compiled.staged.data(), compiled.staged.size());
  }
  program.run(Run::step, nullptr);
  device.backend.finish();
}

}  // namespace

struct CommandBuffer::State {
  explicit State(const Device& device_in)
      : device(device_in), number(next_buffer++), recording(number) {}

  const Device device;
  const std::uint64_t number;
  Recording recording;
  std::vector<Handler> handlers;
  std::atomic<int> status{static_cast<int>(CommandBufferStatus::kNotEnqueued)};
  std::mutex mutex;  // guards what follows
  std::exception_ptr error;
  bool raised = false;
  double start = 0;
  double end = 0;
  std::shared_ptr<Task> task;

  void fail(std::exception_ptr with) {
    const std::lock_guard lock(mutex);
    error = std::move(with);
    status = static_cast<int>(CommandBufferStatus::kError);
  }
};

CommandBuffer::CommandBuffer(const Device& device) : state_(std::make_shared<State>(device)) {}
CommandBuffer::~CommandBuffer() = default;

const Device& CommandBuffer::device() const { return state_->device; }
std::uint64_t CommandBuffer::number() const { return state_->number; }

CommandBufferStatus CommandBuffer::status() const {
  return static_cast<CommandBufferStatus>(state_->status.load());
}

Recording* CommandBuffer::recording() {
  return status() == CommandBufferStatus::kNotEnqueued ? &state_->recording : nullptr;
}

void CommandBuffer::add_completed_handler(Handler handler) {
  if (status() != CommandBufferStatus::kNotEnqueued) {
    throw InvalidArgument(
        "[MTLCommandBuffer] expected a handler before commit but the buffer was committed");
  }
  state_->handlers.push_back(std::move(handler));
}

void CommandBuffer::commit() {
  if (status() != CommandBufferStatus::kNotEnqueued) {
    throw InvalidArgument("[MTLCommandBuffer] expected one commit but the buffer was committed");
  }
  const std::shared_ptr<State> state = state_;
  state->status = static_cast<int>(CommandBufferStatus::kCommitted);
  const std::shared_ptr<DeviceState>& device = state->device.state();
  std::shared_ptr<CompiledRecording> program;
  try {
    if (!state->recording.empty()) program = compiled(*device, state->recording);
  } catch (...) {
    state->fail(std::current_exception());
    throw;
  }
  for (const StoragePtr& storage : state->recording.storages()) ++storage->in_flight;
  auto task = std::make_shared<Task>();
  task->work = [state, device, program, self = shared_from_this()]() -> std::function<void()> {
    state->status = static_cast<int>(CommandBufferStatus::kScheduled);
    const double start = now();
    try {
      if (program != nullptr) {
        run(*device, *program, state->recording.storages(), state->recording.numbers());
      }
      state->status = static_cast<int>(CommandBufferStatus::kCompleted);
    } catch (...) {
      state->fail(std::current_exception());
    }
    for (const StoragePtr& storage : state->recording.storages()) --storage->in_flight;
    {
      const std::lock_guard lock(state->mutex);
      state->start = start;
      state->end = now();
    }
    for (const Handler& handler : state->handlers) handler(self);
    state->handlers.clear();
    // Images and kernels may go.
    state->recording = Recording(state->number);
    return nullptr;
  };
  {
    const std::lock_guard lock(state->mutex);
    state->task = task;
  }
  device->stream->submit(task);
}

void CommandBuffer::wait_until_completed() {
  std::shared_ptr<Task> task;
  {
    const std::lock_guard lock(state_->mutex);
    task = state_->task;
  }
  if (task == nullptr && status() == CommandBufferStatus::kNotEnqueued) {
    throw InvalidArgument("[MTLCommandBuffer] expected a committed buffer to wait for");
  }
  if (task != nullptr) state_->device.state()->stream->wait(task);
  const std::lock_guard lock(state_->mutex);
  if (state_->error == nullptr || state_->raised) return;
  state_->raised = true;
  std::rethrow_exception(state_->error);
}

std::exception_ptr CommandBuffer::error() const {
  const std::lock_guard lock(state_->mutex);
  return state_->error;
}

double CommandBuffer::gpu_start_time() const {
  const std::lock_guard lock(state_->mutex);
  return state_->start;
}

double CommandBuffer::gpu_end_time() const {
  const std::lock_guard lock(state_->mutex);
  return state_->end;
}

}  // namespace traingraph::mps
