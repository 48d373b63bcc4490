// Memory of a device that the host cannot use in place: copies, late reads, waiting. The functions
// below the class do the same on any backend, with plain copies where its memory is the host's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/backend.h"

namespace traingraph {

// The most that is worth a late read: it comes in the shadow of what was enqueued before.
inline constexpr std::size_t kMostLateBytes = 256;

// Rows of so many bytes, one behind another.
struct RowTable {
  const std::byte* first;
  std::size_t row_bytes;
};

// Copies one row after another, each from its place in a table; all in the host's memory.
void gather_on_host(std::byte* to, const RowTable& rows, const std::int64_t* places,
                    std::size_t count);

// Everything is ordered after what was asked for before. Host bytes are free again, or there, when
// a call returns.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual void write(std::byte* to, const void* from, std::size_t bytes) const = 0;
  virtual void read(void* to, const std::byte* from, std::size_t bytes) const = 0;
  // Enqueues a read behind everything before, and returns without waiting. Null where it cannot,
  // and maybe for more than kMostLateBytes: then read() has to do.
  virtual std::unique_ptr<PendingRead> read_later(const std::byte* from,
                                                  std::size_t bytes) const = 0;
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) const = 0;
  virtual void clear(std::byte* at, std::size_t bytes) const = 0;
  virtual void gather_rows(std::byte* to, const RowTable& rows, const std::int64_t* places,
                           std::size_t count) const = 0;
  // Returns when everything before is done. Raises DeviceError where some of it has failed.
  virtual void finish() const = 0;
};

inline bool uses_host_memory(const Backend& backend) { return backend.memory() == nullptr; }
void write_memory(const Backend& backend, std::byte* to, const void* from, std::size_t bytes);
void read_memory(const Backend& backend, void* to, const std::byte* from, std::size_t bytes);
// Null on the host, too.
std::unique_ptr<PendingRead> read_memory_later(const Backend& backend, const std::byte* from,
                                               std::size_t bytes);
void copy_memory(const Backend& backend, std::byte* to, const std::byte* from, std::size_t bytes);
void clear_memory(const Backend& backend, std::byte* at, std::size_t bytes);
void gather_rows(const Backend& backend, std::byte* to, const RowTable& rows,
                 const std::int64_t* places, std::size_t count);
void finish_work(const Backend& backend);

}  // namespace traingraph
