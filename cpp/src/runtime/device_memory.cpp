// Copies, clears and gathers bytes of a backend: by its device memory, or as the host's.
#include "runtime/device_memory.h"

#include <cstring>

namespace traingraph {
namespace {

// Most rows are small: a call for each would take longer than its copy.
template <std::size_t kBytes>
void gather_small(std::byte* to, const std::byte* from, const std::int64_t* places,
                  std::size_t count) {
  for (std::size_t r = 0; r < count; ++r) {
    std::memcpy(to + r * kBytes, from + static_cast<std::size_t>(places[r]) * kBytes, kBytes);
  }
}

}  // namespace

void gather_on_host(std::byte* to, const RowTable& rows, const std::int64_t* places,
                    std::size_t count) {
  const std::size_t bytes = rows.row_bytes;
  if (bytes == 4) return gather_small<4>(to, rows.first, places, count);
  if (bytes == 8) return gather_small<8>(to, rows.first, places, count);
  if (bytes == 16) return gather_small<16>(to, rows.first, places, count);
  for (std::size_t r = 0; r < count; ++r) {
    std::memcpy(to + r * bytes, rows.first + static_cast<std::size_t>(places[r]) * bytes, bytes);
  }
}

void write_memory(const Backend& backend, std::byte* to, const void* from, std::size_t bytes) {
  if (const DeviceMemory* memory = backend.memory()) return memory->write(to, from, bytes);
  std::memcpy(to, from, bytes);
}

void read_memory(const Backend& backend, void* to, const std::byte* from, std::size_t bytes) {
  if (const DeviceMemory* memory = backend.memory()) return memory->read(to, from, bytes);
  std::memcpy(to, from, bytes);
}

std::unique_ptr<PendingRead> read_memory_later(const Backend& backend, const std::byte* from,
                                               std::size_t bytes) {
  const DeviceMemory* const memory = backend.memory();
  return memory != nullptr ? memory->read_later(from, bytes) : nullptr;
}

void copy_memory(const Backend& backend, std::byte* to, const std::byte* from, std::size_t bytes) {
  if (const DeviceMemory* memory = backend.memory()) return memory->copy(to, from, bytes);
  std::memcpy(to, from, bytes);
}

void clear_memory(const Backend& backend, std::byte* at, std::size_t bytes) {
  if (const DeviceMemory* memory = backend.memory()) return memory->clear(at, bytes);
  std::memset(at, 0, bytes);
}

void gather_rows(const Backend& backend, std::byte* to, const RowTable& rows,
                 const std::int64_t* places, std::size_t count) {
  const DeviceMemory* const memory = backend.memory();
  if (memory != nullptr) return memory->gather_rows(to, rows, places, count);
  gather_on_host(to, rows, places, count);
}

void finish_work(const Backend& backend) {
  if (const DeviceMemory* memory = backend.memory()) memory->finish();
}

}  // namespace traingraph
