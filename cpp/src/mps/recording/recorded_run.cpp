// Runs a compiled recording: binds its storages, stages its numbers and, after the run, copies the
// byte range that the host read last to host memory.
#include "mps/recording/recorded_run.h"
#include "runtime/device_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace traingraph::mps {

std::shared_ptr<RunEnd> RunEnd::of(DeviceState& device, const std::vector<StoragePtr>& storages,
                                   const std::byte* any) {
  if (uses_host_memory(device.backend)) return nullptr;
  auto end = std::make_shared<RunEnd>();
  const LastRead& last = device.last_read;
  const StoragePtr storage = last.of.lock();
  const bool is_of_run = std::find(storages.begin(), storages.end(), storage) != storages.end();
  if (is_of_run && storage->memory != nullptr && storage->lies == storage->layout &&
      last.end <= storage->bytes()) {
    const std::size_t bytes = last.end - last.first;
    end->pending_ = read_memory_later(device.backend, storage->memory.get() + last.first, bytes);
    if (end->pending_ != nullptr) {
      end->storage_ = storage;
      end->first_ = last.first;
      end->bytes_.resize(bytes);
      return end;
    }
  }
  if (any != nullptr) end->pending_ = read_memory_later(device.backend, any, 1);
  if (end->pending_ != nullptr) return end;
  finish_work(device.backend);
  return nullptr;
}

void RunEnd::take() {
  pending_->take(bytes_.data());
  // Another run over the storage, committed meanwhile, may have written it again.
  if (storage_ == nullptr || storage_->in_flight > 1) return;
  storage_->prefetched = std::move(bytes_);
  storage_->prefetched_from = first_;
}

std::shared_ptr<RunEnd> run(DeviceState& device, CompiledRecording& compiled,
                            const std::vector<StoragePtr>& storages,
                            const std::vector<double>& numbers) {
  Program& program = *compiled.program;
  program.executable->expect_threads();
  device.arena.grow(program.arena_bytes(Run::step));
  device.arena.bind(program);
  const std::byte* any = device.arena.memory().get();
  for (const CompiledRecording::Binding& binding : compiled.bindings) {
    std::byte* base = storages[binding.storage]->address(binding.layout);
    std::byte* at = base == nullptr ? nullptr : base + binding.offset;
    if (at != nullptr && binding.aligned != nullptr) {
      copy_memory(device.backend, binding.aligned.get(), at, binding.bytes);
      at = binding.aligned.get();
    }
    program.bind(binding.value, at);
    any = base;
  }
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    compiled.numbers.set(n, numbers[n], compiled.wide[n]);
  }
  compiled.numbers.send(compiled.numbers_read, *program.executable);
  program.run(Run::step, nullptr);
  for (const CompiledRecording::Binding& binding : compiled.bindings) {
    if (binding.aligned == nullptr || !binding.written) continue;
    std::byte* base = storages[binding.storage]->address(binding.layout);
    copy_memory(device.backend, base + binding.offset, binding.aligned.get(), binding.bytes);
  }
  return RunEnd::of(device, storages, any);
}

}  // namespace traingraph::mps
