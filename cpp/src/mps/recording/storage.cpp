// Storage: allocation, change of type or layout, and host reads and writes in the order of the
// device's stream.
#include "mps/recording/storage.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <traingraph/errors.h>

#include "ir/extents.h"
#include "runtime/device_memory.h"
#include "runtime/memory/transfer.h"

namespace traingraph::mps {

std::byte* Storage::address(const ir::Layout& wanted) {
  prefetched.clear();
  if (memory != nullptr && lies == wanted) return memory.get();
  std::shared_ptr<std::byte> now = device->backend.allocate(ir::storage_bytes(type(), wanted));
  if (memory != nullptr) {
    convert(device->backend, type(), lies, memory.get(), wanted, now.get());
  }
  memory = std::move(now);
  lies = wanted;
  return memory.get();
}

StoragePtr make_storage(const std::shared_ptr<DeviceState>& device, DataType type, Shape shape,
                        ir::Layout layout) {
  if (!ir::can_be(shape, type)) {
    throw ShapeError("[MPS] expected at most " + std::to_string(kMostBytes) + " bytes but got " +
                     to_string(shape) + " of " + name(type));
  }
  auto storage = std::make_shared<Storage>();
  storage->device = device;
  storage->data_type = type;
  storage->shape = std::move(shape);
  storage->layout = std::move(layout);
  return storage;
}

void retype(Storage& storage, DataType type, const Shape& shape, const ir::Layout& layout) {
  if (storage.data_type == type && storage.shape == shape && storage.layout == layout) return;
  storage.device->stream->run([&] {
    if (storage.memory != nullptr) storage.address();
    storage.data_type = type;
    storage.shape = shape;
    storage.layout = storage.lies = layout;
  });
  const std::lock_guard lock(storage.device->mutex);
  storage.preferred = {};
}

namespace {

void check_range(const Storage& storage, std::size_t offset, std::size_t bytes) {
  if (storage.temporary()) {
    throw InvalidArgument(
        "[MPS] expected what outlives its command buffer but got something temporary, which has no "
        "bytes of its own");
  }
  const std::size_t left = storage.bytes() - std::min(offset, storage.bytes());
  if (offset <= storage.bytes() && bytes <= left) return;
  throw InvalidArgument("[MPS] expected at most " + std::to_string(left) + " bytes but got " +
                        std::to_string(bytes));
}

// On the stream.
void note_reading(Storage& storage, std::size_t offset, std::size_t bytes) {
  LastRead& last = storage.device->last_read;
  if (bytes > kMostLateBytes) return;
  if (last.of.lock().get() == &storage) {
    const std::size_t first = std::min(last.first, offset);
    const std::size_t end = std::max(last.end, offset + bytes);
    if (end - first <= kMostLateBytes) {
      last.first = first;
      last.end = end;
      return;
    }
  }
  last = {storage.weak_from_this(), offset, offset + bytes};
}

}  // namespace

void read_storage(Storage& storage, std::size_t offset, void* to, std::size_t bytes) {
  check_range(storage, offset, bytes);
  const Backend& backend = storage.device->backend;
  storage.device->stream->run([&] {
    if (!uses_host_memory(backend)) note_reading(storage, offset, bytes);
    if (offset >= storage.prefetched_from &&
        offset + bytes <= storage.prefetched_from + storage.prefetched.size()) {
      std::memcpy(to, storage.prefetched.data() + (offset - storage.prefetched_from), bytes);
      return;
    }
    std::byte* at = storage.address();
    if (at != nullptr) read_memory(backend, to, at + offset, bytes);
  });
}

void write_storage(Storage& storage, std::size_t offset, const void* from, std::size_t bytes) {
  check_range(storage, offset, bytes);
  const Backend& backend = storage.device->backend;
  auto write = [&] {
    std::byte* at = storage.address();
    if (at != nullptr) write_memory(backend, at + offset, from, bytes);
  };
  // Host memory that no queued run touches needs no waiting.
  if (uses_host_memory(backend) && storage.in_flight == 0) {
    write();
  } else {
    storage.device->stream->run(write);
  }
}

}  // namespace traingraph::mps
