// DeviceState and Storage, the internal types behind the handles Device, Buffer, Image and State,
// and reads and writes of their bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <traingraph/mps/device.h>
#include <traingraph/mps/encoded_on.h>
#include <traingraph/mutex.h>

#include "engine/arena.h"
#include "engine/lru_programs.h"
#include "ir/type.h"
#include "runtime/backend.h"
#include "runtime/threads/stream.h"

namespace traingraph::mps {

struct CompiledRecording;
class Recording;
struct Storage;

// The few bytes of a storage that the host has read last, or several readings of it together. The
// end of a run brings them along, because a host that reads a loss behind each step would else wait
// for the device twice.
struct LastRead {
  std::weak_ptr<Storage> of;
  std::size_t first = 0;
  std::size_t end = 0;
};

// One piece of hardware: one order of work, one cache of programs, one arena that they share.
struct DeviceState {
  explicit DeviceState(const Backend& backend_in, int index_in)
      : backend(backend_in), index(index_in) {}
  const Backend& backend;
  const int index;
  const std::shared_ptr<Stream> stream = std::make_shared<Stream>();

  Mutex mutex;  // guards what follows, up to the arena
  LruPrograms<CompiledRecording> programs{64};
  std::int64_t compilations = 0;
  std::shared_ptr<Recording> spare;  // its memory serves the next buffer

  // Touched on the stream alone.
  Arena arena{backend};
  LastRead last_read;  // where memory is not the host's
};

// The bytes of images, states and weights, or the name of a value that lives on one command buffer
// alone.
struct Storage : std::enable_shared_from_this<Storage> {
  std::shared_ptr<DeviceState> device;
  DataType data_type = DataType::kFloat32;
  // Images: (rows, C, H, W), of which parts along axis 0 are read and written apart.
  Shape shape;
  ir::Layout layout;  // the order that programs see: Apple's
  bool divisible = false;
  bool blank = false;  // zeros that stand for nothing: a kernel without biases
  // The number of the command buffer it lives on; 0: permanent. Runs of earlier buffers ask whether
  // it is, while a graph lets it live on the next.
  std::atomic<std::uint64_t> owner{0};
  // By the host; if temporary: by an encoding that was recorded.
  std::atomic<bool> written{false};
  EncodedOn writers;  // if permanent; guarded by the device's mutex
  // Of a normalized format: elements are whole numbers from 0 to this, divided by it. 0: any.
  std::int64_t levels = 0;
  bool kept = false;  // it outlives a committed part of its buffer, and has bytes
  std::atomic<std::int64_t> reads_left{0};  // of its images, if temporary
  std::atomic<int> in_flight{0};            // runs that use it and are not done, if permanent
  // Between runs the bytes of what is not divisible lie as the last program wanted them. Plain:
  // none has wanted anything. Guarded by the device's mutex.
  ir::Layout preferred;
  std::atomic<bool> pinned{false};  // the host has the address: bytes stay in `layout`
  // Touched on the stream, or while nothing is in flight.
  std::shared_ptr<std::byte> memory;
  ir::Layout lies;
  // What the last run has brought along, from this byte of `layout` on; nothing once the address
  // was asked for again.
  std::vector<std::byte> prefetched;
  std::size_t prefetched_from = 0;

  bool temporary() const { return owner != 0; }
  // A value without bytes.
  bool transient() const { return temporary() && !kept; }
  // Whether an encoding or the host may have given it a value that others find.
  bool has_value() const { return written || pinned || writers_now().has(BufferFate::kCommitted); }
  EncodedOn writers_now() const {
    const std::lock_guard lock(device->mutex);
    return writers;
  }
  // Whether programs find the bytes in `layout` alone.
  bool fixed() const { return divisible || (pinned && shape.size() > 1); }
  ir::Type type() const { return {data_type, shape, false}; }
  std::size_t bytes() const { return ir::storage_bytes(type(), layout); }
  // Allocates zeros at the first use, and converts from another layout.
  std::byte* address(const ir::Layout& wanted);
  std::byte* address() { return address(layout); }
};
using StoragePtr = std::shared_ptr<Storage>;

StoragePtr make_storage(const std::shared_ptr<DeviceState>& device, DataType type, Shape shape,
                        ir::Layout layout = {});

// Raises InvalidArgument unless both buffers of a state are of one device.
void check_one_device(const Buffer& first, const Buffer& second, const char* kind);

// The same bytes as another type, shape and order.
void retype(Storage& storage, DataType type, const Shape& shape, const ir::Layout& layout);

// Part of the bytes, behind all work that was committed before.
void read_storage(Storage& storage, std::size_t offset, void* to, std::size_t bytes);
void write_storage(Storage& storage, std::size_t offset, const void* from, std::size_t bytes);

}  // namespace traingraph::mps
