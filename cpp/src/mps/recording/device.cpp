// Device and Buffer: one DeviceState per backend and index, and access to a buffer's bytes in the
// order of its stream.
#include <traingraph/mps/device.h>

#include <map>
#include <mutex>
#include <utility>

#include <traingraph/device.h>
#include <traingraph/errors.h>
#include <traingraph/mps/command_buffer.h>
#include <traingraph/mutex.h>

#include "mps/recording/storage.h"
#include "runtime/device_memory.h"

namespace traingraph::mps {
namespace {

std::shared_ptr<DeviceState> state_of(const traingraph::Device& device) {
  static Mutex mutex;
  // Never destroyed: work may be in flight when the process ends.
  static auto* known = new std::map<std::pair<std::string, int>, std::shared_ptr<DeviceState>>;
  const std::lock_guard lock(mutex);
  auto& state = (*known)[{device.backend(), device.index()}];
  if (state == nullptr) {
    const Backend& backend = backend_named(device.backend(), device.index());
    state = std::make_shared<DeviceState>(backend, device.index());
  }
  return state;
}

}  // namespace

Device Device::named(const std::string& text) {
  return Device(state_of(traingraph::Device::named(text)));
}
Device Device::system_default() { return Device(state_of(traingraph::Device::any())); }

std::string Device::name() const {
  const std::vector<std::string> names = state_->backend.devices();
  const auto index = static_cast<std::size_t>(state_->index);
  return index < names.size() ? names[index] : state_->backend.name();
}

const std::string& Device::backend() const {
  static thread_local std::string name;
  name = state_->backend.name();
  return name;
}

std::string Device::text() const {
  return backend() + (state_->index == 0 ? "" : ":" + std::to_string(state_->index));
}

std::uint64_t Device::registry_id() const {
  return std::hash<std::string>{}(state_->backend.name()) +
         static_cast<std::uint64_t>(state_->index);
}

std::shared_ptr<CommandQueue> Device::make_command_queue() const {
  return std::make_shared<CommandQueue>(*this);
}

std::int64_t Device::compilations() const {
  const std::lock_guard lock(state_->mutex);
  return state_->compilations;
}

void Device::wait_until_idle() const {
  // Behind everything, and when all that was left of it is done.
  const auto task = std::make_shared<Task>();
  task->work = [] { return std::function<void()>(); };
  state_->stream->submit({task});
  state_->stream->wait(task);
}

Buffer::Buffer(const Device& device, std::size_t bytes)
    : storage_(make_storage(device.state(), DataType::kUInt8, {static_cast<std::int64_t>(bytes)})) {
  if (bytes == 0) throw InvalidArgument("[MTLBuffer] expected 1 byte or more but got 0");
}

Buffer::Buffer(const Device& device, const void* contents, std::size_t bytes)
    : Buffer(device, bytes) {
  write(contents, bytes);
}

void check_one_device(const Buffer& first, const Buffer& second, const char* kind) {
  if (first.device() == second.device()) return;
  throw InvalidArgument("[" + std::string(kind) + "] expected buffers of one device but got " +
                        first.device().name() + " and " + second.device().name());
}

Device Buffer::device() const { return Device(storage_->device); }
std::size_t Buffer::length() const { return storage_->bytes(); }
DataType Buffer::data_type() const { return storage_->data_type; }
void Buffer::read(void* to, std::size_t bytes) const { read_storage(*storage_, 0, to, bytes); }
void Buffer::write(const void* from, std::size_t bytes) const {
  storage_->written = true;
  write_storage(*storage_, 0, from, bytes);
}

void* Buffer::contents() const {
  if (storage_->temporary() || !uses_host_memory(storage_->device->backend)) return nullptr;
  storage_->pinned = true;
  void* address = nullptr;
  storage_->device->stream->run([&] { address = storage_->address(); });
  return address;
}

}  // namespace traingraph::mps
