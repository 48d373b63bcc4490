#include "mps/recorded_run.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace traingraph::mps {

std::shared_ptr<RunEnd> RunEnd::of(DeviceState& device, const std::vector<StoragePtr>& storages,
                                   const std::byte* any) {
  if (device.backend.uses_host_memory()) return nullptr;
  auto end = std::make_shared<RunEnd>();
  const LastRead& last = device.last_read;
  const StoragePtr storage = last.of.lock();
  const bool is_of_run = std::find(storages.begin(), storages.end(), storage) != storages.end();
  if (is_of_run && storage->memory != nullptr && storage->lies == storage->layout &&
      last.end <= storage->bytes()) {
    const std::size_t bytes = last.end - last.first;
    end->pending_ = device.backend.read_later(storage->memory.get() + last.first, bytes);
    if (end->pending_ != nullptr) {
      end->storage_ = storage;
      end->first_ = last.first;
      end->bytes_.resize(bytes);
      return end;
    }
  }
  if (any != nullptr) end->pending_ = device.backend.read_later(any, 1);
  if (end->pending_ != nullptr) return end;
  device.backend.finish();
  return nullptr;
}

void RunEnd::take() {
  pending_->take(bytes_.data());
  // Another run over the storage, committed meanwhile, may have written it again.
  if (storage_ == nullptr || storage_->in_flight > 1) return;
  storage_->brought = std::move(bytes_);
  storage_->brought_from = first_;
}

void grow_arena(DeviceState& device, std::size_t bytes) {
  if (bytes <= device.arena_bytes) return;
  device.arena = device.backend.allocate(bytes);
  device.arena_bytes = bytes;
}

namespace {

// The numbers of a run as the program reads them; false when they are those of the run before.
bool stage(CompiledRecording& compiled, const std::vector<double>& numbers) {
  bool changed = !compiled.has_run;
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    const auto narrow = static_cast<float>(numbers[n]);
    const std::size_t bytes = compiled.wide[n] ? sizeof(double) : sizeof(float);
    const void* value = compiled.wide[n] ? static_cast<const void*>(&numbers[n]) : &narrow;
    std::byte* at = compiled.staged.data() + n * 8;
    if (std::memcmp(at, value, bytes) == 0) continue;
    std::memcpy(at, value, bytes);
    changed = true;
  }
  compiled.has_run = true;
  return changed;
}

}  // namespace

std::shared_ptr<RunEnd> run(DeviceState& device, CompiledRecording& compiled,
                            const std::vector<StoragePtr>& storages,
                            const std::vector<double>& numbers) {
  Program& program = *compiled.program;
  grow_arena(device, program.arena_bytes(Run::step));
  if (compiled.arena != device.arena.get()) {
    program.bind_arena(device.arena.get());
    compiled.arena = device.arena.get();
  }
  const std::byte* any = device.arena.get();
  for (const CompiledRecording::Binding& binding : compiled.bindings) {
    std::byte* base = storages[binding.storage]->address(binding.layout);
    std::byte* at = base == nullptr ? nullptr : base + binding.offset;
    if (at != nullptr && binding.aligned != nullptr) {
      device.backend.copy(binding.aligned.get(), at, binding.bytes);
      at = binding.aligned.get();
    }
    program.bind(binding.value, at);
    any = base;
  }
  if (compiled.numbers != nullptr && stage(compiled, numbers)) {
    device.backend.write(compiled.numbers.get(), compiled.staged.data(), compiled.staged.size());
  }
  program.run(Run::step, nullptr);
  for (const CompiledRecording::Binding& binding : compiled.bindings) {
    if (binding.aligned == nullptr || !binding.written) continue;
    std::byte* base = storages[binding.storage]->address(binding.layout);
    device.backend.copy(base + binding.offset, binding.aligned.get(), binding.bytes);
  }
  return RunEnd::of(device, storages, any);
}

}  // namespace traingraph::mps
