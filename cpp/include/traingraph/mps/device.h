// Metal's device and buffer (Device, Buffer) over any backend; command queues are in
// command_buffer.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <traingraph/export.h>
#include <traingraph/types.h>

namespace traingraph {
struct ClassDescription;
}

namespace traingraph::mps {

class CommandQueue;
struct DeviceState;
struct Storage;

// A handle; two are equal when they name the same hardware. All queues of one device are one order.
class TRAINGRAPH_API Device {
 public:
  // "cpu", "reference", "null", "cuda", "gpu:1", … Raises like traingraph::Device::named.
  static Device named(const std::string& text);
  static Device system_default();

  std::string name() const;
  const std::string& backend() const;
  // "cpu", "cuda:1": what named() takes.
  std::string text() const;
  std::uint64_t registry_id() const;
  std::shared_ptr<CommandQueue> make_command_queue() const;
  // Recordings that were compiled for this device so far, and the programs it holds.
  std::int64_t compilations() const;
  // Returns when everything that was committed is done, handlers included.
  void wait_until_idle() const;

  bool operator==(const Device& other) const { return state_ == other.state_; }
  const std::shared_ptr<DeviceState>& state() const { return state_; }
  static const ClassDescription& class_description();

 private:
  friend class Buffer;
  explicit Device(std::shared_ptr<DeviceState> state) : state_(std::move(state)) {}
  std::shared_ptr<DeviceState> state_;
};

// Bytes on a device: what states hold their results in.
class TRAINGRAPH_API Buffer {
 public:
  Buffer(const Device& device, std::size_t bytes);
  Buffer(const Device& device, const void* contents, std::size_t bytes);
  explicit Buffer(std::shared_ptr<Storage> storage) : storage_(std::move(storage)) {}

  Device device() const;
  std::size_t length() const;
  DataType data_type() const;
  // Wait for all work that was committed before.
  void read(void* to, std::size_t bytes) const;
  void write(const void* from, std::size_t bytes) const;
  // Where they lie when all that was committed before is done; null unless that is host memory.
  void* contents() const;

  const std::shared_ptr<Storage>& storage() const { return storage_; }
  static const ClassDescription& class_description();

 private:
  std::shared_ptr<Storage> storage_;
};

}  // namespace traingraph::mps
