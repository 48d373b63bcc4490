// Device memory for bound arrays: a slot per tensor, copies of data that the caller may change, and
// uploads that skip unchanged data.
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

}  // namespace

void DeviceStaging::place(const Tensor& tensor, std::size_t bytes) {
  if (uses_host_memory(backend_)) return;
  DeviceSlot& slot = slots_[&tensor];
  if (slot.capacity >= bytes) return;
  const std::shared_ptr<std::byte> memory = backend_.allocate(bytes);
  if (slot.memory != nullptr) copy_memory(backend_, memory.get(), slot.memory.get(), slot.capacity);
  slot.memory = memory;
  slot.capacity = bytes;
}

void DeviceStaging::make_room_like(const DeviceStaging& before) {
  copies_ = before.copies_;
  for (const auto& [tensor, old] : before.slots_) place(*tensor, old.capacity);
}

void DeviceStaging::take_over(const DeviceStaging& before) {
  make_room_like(before);
  for (const auto& [tensor, old] : before.slots_) {
    DeviceSlot& slot = slots_[tensor];
    // Jobs of the executor before may still write into its slots.
    copy_memory(backend_, slot.memory.get(), old.memory.get(), old.capacity);
    slot.version = old.version;
  }
}

void DeviceStaging::drop_copies(const Tensor& tensor) {
  const auto found = copies_.find(&tensor);
  if (found == copies_.end()) return;
  std::erase_if(found->second, [](const Copy& copy) { return copy.memory.use_count() == 1; });
}

TensorData DeviceStaging::copy_of(const Tensor& tensor, const ir::Type& type,
                                  const TensorData& data) {
  const std::size_t bytes = ir::storage_bytes(type, {});
  if (!uses_host_memory(backend_)) {
    return TensorData::copy_of(data.bytes, bytes, type.data_type, type.shape);
  }
  TensorData copy = data;
  if (backend_.traits().computes) {
    const std::shared_ptr<std::byte> memory = memory_for_copy(tensor, bytes);
    std::memcpy(memory.get(), data.bytes, bytes);
    copy.bytes = memory.get();
    copy.owner = memory;
  }
  copy.length = bytes;
  copy.data_type = type.data_type;
  copy.shape = type.shape;
  return copy;
}

// Memory of an earlier copy that nothing reads any more, else new memory.
std::shared_ptr<std::byte> DeviceStaging::memory_for_copy(const Tensor& tensor, std::size_t bytes) {
  std::vector<Copy>& copies = copies_[&tensor];
  std::erase_if(copies, [&](const Copy& copy) {
    return copy.memory.use_count() == 1 && copy.bytes != bytes;
  });
  for (const Copy& copy : copies) {
    if (copy.memory.use_count() == 1) return copy.memory;
  }
  copies.push_back({backend_.allocate(bytes), bytes});
  return copies.back().memory;
}

BoundArray DeviceStaging::bound(ir::ValueId value, const Tensor& tensor, const ir::Type& type,
                                const GivenData& given) {
  BoundArray array{value, static_cast<std::byte*>(given.data.bytes), given.data.owner};
  if (uses_host_memory(backend_)) return array;
  array.slot = &slots_.at(&tensor);
  array.bytes = ir::storage_bytes(type, {});
  array.version = given.version;
  array.on_device = given.data.gpu >= 0;
  array.lasting = given.call == 0;
  array.rows = given.rows;
  return array;
}

std::byte* DeviceStaging::placed(const BoundArray& array, bool apart) {
  if (array.slot == nullptr) return array.address;
  DeviceSlot& slot = *array.slot;
  if (array.address == slot.memory.get()) return array.address;
  const bool in_place = array.on_device && array.rows.places == nullptr;
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
    gather_rows(backend_, slot.memory.get(), {array.address, array.bytes / count},
                places + array.rows.first, count);
  } else if (array.on_device) {
    copy_memory(backend_, slot.memory.get(), array.address, array.bytes);
  } else {
    write_memory(backend_, slot.memory.get(), array.address, array.bytes);
  }
  slot.version = array.version;
  return slot.memory.get();
}

void DeviceStaging::list(MemoryPlan& plan) const {
  auto add = [&](const std::string& name, std::size_t bytes) {
    plan.entries.push_back({name, "staging", bytes});
    plan.staging_bytes += bytes;
  };
  for (const auto& [tensor, copies] : copies_) {
    for (const Copy& copy : copies) add(tensor->label(), copy.bytes);
  }
  for (const auto& [tensor, slot] : slots_) add(tensor->label(), slot.capacity);
}

}  // namespace traingraph
