// The GPU of the backend: its queue, its memory and its shaders.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "runtime/backend.h"
#include "runtime/diagnostics.h"

namespace traingraph::metal {

// A function of the shaders, compiled for the device.
class Shader;

// One GPU: its queue, its memory, its shaders. Objective-C's side is in objects.h.
class Device {
 public:
  // Raises DeviceError where there is none.
  Device();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  std::string name() const;
  // 64-byte aligned, zeroed; an address of the host, because the memory is shared. Raises
  // OutOfMemory. The device must outlive it.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);
  // The same for what kernels and transfers keep for themselves, which no plan counts.
  std::shared_ptr<std::byte> keep(std::size_t bytes);
  std::size_t kept_bytes() const;
  // What Backend says of these. Anything that was committed may be in flight when they are called,
  // and when run() returns.
  void write(std::byte* to, const void* from, std::size_t bytes);
  void read(void* to, const std::byte* from, std::size_t bytes);
  std::unique_ptr<PendingRead> read_later(const std::byte* from, std::size_t bytes);
  // What write() has brought there or is bringing, without waiting: for bytes that nothing else
  // writes.
  void read_written(void* to, const std::byte* from, std::size_t bytes) const;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes);
  void clear(std::byte* at, std::size_t bytes);
  void finish() const;
  // Seconds of work of what is done.
  double seconds() const;

  // Raises InternalError where the shaders have no such function.
  const Shader& shader(const std::string& name);

  // What run() and the copies between memories were asked to do.
  void count_launches(std::int64_t kernels);
  DeviceCounters counters() const;

  struct Objects;
  Objects& objects() const { return *objects_; }

 private:
  bool holds(const std::byte* address) const;
  void count_copies(std::int64_t in, std::int64_t out, std::int64_t within);

  std::unique_ptr<Objects> objects_;
};

}  // namespace traingraph::metal
