// Copies of data that the caller may change, device memory for bound arrays, and uploads that skip
// unchanged data.
#include "graph/data/device_staging.h"
#include "runtime/device_memory.h"

#include <algorithm>
#include <cstring>

namespace traingraph {
namespace {

// What kernels may expect of an address: that of the backend's own memory.
constexpr std::uintptr_t kAlignment = 64;

bool is_aligned(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kAlignment == 0;
}

// Memory of an earlier copy that nothing reads any more, else new memory.
std::shared_ptr<std::byte> memory_for_copy(std::vector<HostCopy>& copies, const Backend& backend,
                                           std::size_t bytes) {
  std::erase_if(copies, [&](const HostCopy& copy) {
    return copy.memory.use_count() == 1 && copy.bytes != bytes;
  });
  for (const HostCopy& copy : copies) {
    if (copy.memory.use_count() == 1) return copy.memory;
  }
  copies.push_back({backend.allocate(bytes), bytes});
  return copies.back().memory;
}

// On the host. Stays for the next call with fewer rows.
std::shared_ptr<std::byte> memory_to_fill(std::vector<HostCopy>& filled, std::size_t bytes) {
  for (const HostCopy& copy : filled) {
    if (copy.memory.use_count() == 1 && copy.bytes >= bytes) return copy.memory;
  }
  std::shared_ptr<std::byte> memory(new std::byte[bytes], std::default_delete<std::byte[]>());
  filled.push_back({std::move(memory), bytes});
  return filled.back().memory;
}

// Fills up `wanted` bytes, of which `bytes` are there, in steps that double.
template <class Copy>
void repeat_last_row(std::byte* first, std::size_t bytes, std::size_t wanted, std::size_t row_bytes,
                     const Copy& copy) {
  const std::byte* const last = first + bytes - row_bytes;
  for (std::size_t known = row_bytes; bytes < wanted; known *= 2) {
    const std::size_t more = std::min(known, wanted - bytes);
    copy(first + bytes, last, more);
    bytes += more;
  }
}

}  // namespace

void reserve(DeviceSlot& slot, const Backend& backend, std::size_t bytes) {
  if (slot.capacity >= bytes) return;
  const std::shared_ptr<std::byte> memory = backend.allocate(bytes);
  if (slot.memory != nullptr) copy_memory(backend, memory.get(), slot.memory.get(), slot.capacity);
  slot.memory = memory;
  slot.capacity = bytes;
}

void drop_unread(std::vector<HostCopy>& copies) {
  std::erase_if(copies, [](const HostCopy& copy) { return copy.memory.use_count() == 1; });
}

TensorData copy_of(const TensorData& data, const ir::Type& type, const Backend& backend,
                   std::vector<HostCopy>& copies) {
  const std::size_t bytes = ir::storage_bytes(type, {});
  if (!uses_host_memory(backend)) {
    return TensorData::copy_of(data.bytes, bytes, type.data_type, type.shape);
  }
  TensorData copy = data;
  if (backend.traits().computes) {
    const std::shared_ptr<std::byte> memory = memory_for_copy(copies, backend, bytes);
    std::memcpy(memory.get(), data.bytes, bytes);
    copy.bytes = memory.get();
    copy.owner = memory;
  }
  copy.length = bytes;
  copy.data_type = type.data_type;
  copy.shape = type.shape;
  return copy;
}

void fill(BoundArray& array, const ir::Type& type, const ir::Type& whole, const Backend& backend,
          std::vector<HostCopy>& filled) {
  const std::size_t bytes = ir::storage_bytes(type, {}), wanted = ir::storage_bytes(whole, {});
  const std::size_t row_bytes = bytes / static_cast<std::size_t>(type.shape[0]);
  if (array.on_device || uses_host_memory(backend)) {
    array.bytes = bytes;
    array.wanted = wanted;
    array.row_bytes = row_bytes;
    return;
  }
  if (!backend.traits().computes) return;
  const std::shared_ptr<std::byte> memory = memory_to_fill(filled, wanted);
  std::memcpy(memory.get(), array.address, bytes);
  repeat_last_row(memory.get(), bytes, wanted, row_bytes, std::memcpy);
  array.address = memory.get();
  array.owner = memory;
}

std::byte* placed(const BoundArray& array, const Backend& backend, bool apart) {
  if (array.slot == nullptr) return array.address;
  DeviceSlot& slot = *array.slot;
  const bool is_whole = array.wanted == 0;
  if (is_whole && array.address == slot.memory.get()) return array.address;
  const bool in_place = array.on_device && array.rows.places == nullptr && is_whole;
  if (in_place) {
    if (array.lasting) slot.copies = false;
    const bool same = array.lasting || slot.foreign == nullptr || slot.foreign == array.address;
    if (same && !slot.copies && apart && is_aligned(array.address)) {
      slot.foreign = array.address;
      return array.address;
    }
  }
  slot.copies = true;
  if (slot.version == array.version) return slot.memory.get();
  slot.version = 0;
  if (array.rows.places != nullptr) {
    const auto* places = reinterpret_cast<const std::int64_t*>(array.rows.places.get());
    const auto count = static_cast<std::size_t>(array.rows.count);
    gather_rows(backend, slot.memory.get(), {array.address, array.bytes / count},
                places + array.rows.first, count);
  } else if (array.on_device) {
    copy_memory(backend, slot.memory.get(), array.address, array.bytes);
  } else {
    write_memory(backend, slot.memory.get(), array.address, array.bytes);
  }
  if (!is_whole) {
    repeat_last_row(slot.memory.get(), array.bytes, array.wanted, array.row_bytes,
                    [&](std::byte* to, const std::byte* from, std::size_t bytes) {
                      copy_memory(backend, to, from, bytes);
                    });
  }
  slot.version = array.version;
  return slot.memory.get();
}

}  // namespace traingraph
