// The parameter store: `ParameterState`, the master buffer of a parameter on a device, and
// `TensorState`, what is behind a tensor's handle.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <traingraph/device.h>
#include <traingraph/mutex.h>
#include <traingraph/tensor.h>

#include "ir/type.h"
#include "runtime/backend.h"

namespace traingraph {

class Stream;

// Optimizer buffers that several processes share: each holds an equal part of a buffer's elements
// in row-major order, and zeros behind the end of the last ones.
struct BufferParts {
  std::size_t own = 0;
  std::size_t count = 1;
  // The parts of all processes behind each other; each calls it, for one buffer after another.
  std::function<std::vector<std::byte>(std::span<const std::byte>)> gather;

  std::int64_t elements(const Shape& whole) const;  // of each part
  // This process's part of dense bytes of a parameter.
  std::vector<std::byte> cut(const ir::Type& type, const std::byte* whole) const;
};

// One parameter on one device: the master buffer with one layout, shared by every graph over the
// tensor, and the optimizer's buffers in the same layout, or parts of them. All but `version`
// belongs to whoever holds the stream.
struct ParameterState {
  const Backend* backend = nullptr;
  DataType data_type = DataType::kFloat32;
  Shape shape;  // canonical: the shape of the layer that uses it
  ir::Layout layout;
  std::shared_ptr<std::byte> master;
  std::vector<std::pair<std::string, std::shared_ptr<std::byte>>> slots;
  std::shared_ptr<const BufferParts> parts;  // of the slots; null: they are whole
  // Names of the buffers that the newest training program uses, in its optimizer's order.
  std::vector<std::string> optimizer_slots;
  // Counts what makes compiled programs stale: another layout or other buffers.
  std::atomic<std::uint64_t> version{0};
  // Whether a training program has chosen the layout for good.
  bool layout_chosen = false;
  std::shared_ptr<Stream> stream;

  ir::Type type() const { return {data_type, shape, false}; }
  std::size_t bytes() const { return ir::storage_bytes(type(), layout); }
  // Of what the slots hold.
  ir::Type slot_type() const;
  ir::Layout slot_layout() const { return parts == nullptr ? layout : ir::Layout(); }
  // The master where it lies. Raises Unsupported, naming the tensor, when it is not row-major.
  TensorData view(const std::string& label) const;
};

// A tensor's parameter, if it has been compiled. Threads look at it without a lock, so what it was
// on another device stays for as long as the tensor, without its bytes.
class ParameterPlace {
 public:
  ParameterState* get() const { return now_.load(std::memory_order_acquire); }
  ParameterState* operator->() const { return get(); }
  ParameterState& operator*() const { return *get(); }
  bool operator==(std::nullptr_t) const { return get() == nullptr; }
  void replace(std::unique_ptr<ParameterState> next);

 private:
  std::atomic<ParameterState*> now_{nullptr};
  std::vector<std::unique_ptr<ParameterState>> all_;
};

// How often a parameter of the process was moved or converted: where that has not changed, each
// lies as it did.
std::uint64_t parameter_moves();
// Brings the tensor's parameter onto a device in a canonical shape, with the host copy's values.
// Changing the device moves it with the optimizer's buffers. Call while holding its stream.
ParameterState& place_parameter(Tensor& tensor, const Backend& backend, const Shape& shape);
// Sends a host copy that was replaced since the last execution to the device.
void upload_if_newer(Tensor& tensor);
// Converts master and slots.
void change_layout(ParameterState& state, const ir::Layout& layout);
// Lets processes share the optimizer's buffers from here on; null: each holds the whole. Raises
// InvalidArgument where a part is there and the whole is asked for.
void share_slots(Tensor& tensor, std::shared_ptr<const BufferParts> parts);
// A buffer of this name, zeroed when it is made.
std::byte* slot_buffer(Tensor& tensor, const std::string& name);
// Raises InvalidArgument unless as many buffers were set as there are names.
void check_optimizer_data(const Tensor& tensor, const std::vector<std::string>& names);
// Sends buffers that were set since the last execution to the device.
void upload_optimizer_data(Tensor& tensor, const std::vector<std::string>& names);
// Whether such buffers were made or set; else they are zeros that nobody holds.
bool has_optimizer_data(const Tensor& tensor, const std::vector<std::string>& names);
// Copies of the buffers of these names: what was set and not yet sent, else the device's values,
// else zeros. Of buffers in parts the whole, by calls of all processes.
std::vector<TensorData> copy_optimizer_data(const Tensor& tensor,
                                            const std::vector<std::string>& names);

// Something that can read a tensor's newest value out of a compiled graph.
class ValueReader {
 public:
  virtual ~ValueReader() = default;
  // Raises InvalidArgument when the value is not readable.
  virtual void read(const Tensor& tensor, void* bytes, std::size_t length) = 0;
  // The value where it lies, kept alive by the owner.
  virtual TensorData view(const Tensor& tensor) = 0;
  // The number of its last forward pass, of `next_pass`; 0: none.
  virtual std::uint64_t newest_pass() const = 0;
  // Returns when all that was submitted to it has run.
  virtual void finish() = 0;
};
// Counts the forward passes of the process; this one is the reader's.
std::uint64_t next_pass(const ValueReader* reader);

// While a completion handler runs, it reads of its own graph, or of the one that it has run since:
// others may run meanwhile.
class HandlerReads {
 public:
  explicit HandlerReads(const ValueReader* own);
  ~HandlerReads();
  HandlerReads(const HandlerReads&) = delete;
  HandlerReads& operator=(const HandlerReads&) = delete;

 private:
  const ValueReader* before_;
};

// What a tensor without a label is called: after a layer that reads it, else its declaration, else
// the layer that has it or gives it.
struct TensorPlace {
  enum Rank { kNone, kRead, kDeclared, kOwn };
  Rank rank = kNone;
  std::function<std::string()> text = [] { return std::string(); };  // empty: the layer is gone
};

// Of what the host has, a thread may set what another one reads.
struct TensorState {
  // Guards data, device_data, optimizer_data and what says that they are newer. Nobody waits while
  // holding it.
  RecursiveMutex host;
  std::int64_t id = 0;
  TensorDescriptor descriptor;
  Label label;        // empty: none of its own
  TensorPlace place;  // guarded by `host`
  // One of both, else "data" and its number.
  std::string name();
  TensorData data;  // in host memory
  // What was given in a GPU's memory; null since the host copy was replaced.
  TensorData device_data;
  const TensorData& given() const { return device_data.bytes != nullptr ? device_data : data; }
  std::uint64_t writes = 0;  // of data by the caller, so far; what a graph computed is none
  // `data` was replaced since it was last sent to the device.
  std::atomic<bool> host_is_newer{false};
  ParameterPlace parameter;
  // The optimizer's buffers as last set or synchronized.
  std::vector<TensorData> optimizer_data;
  // They were set since they were last sent to the device.
  std::atomic<bool> optimizer_data_is_newer{false};
  // A training graph trains it, or a loaded file's has, though it is no layer's parameter.
  bool is_trained = false;
  std::optional<Device> device;
  std::vector<std::weak_ptr<ValueReader>> readers;  // of graphs that it is in; guarded by `host`
};

// Lets reads of the tensor come to this one too, if its forward pass is the last one.
void add_reader(TensorState& state, std::weak_ptr<ValueReader> reader);

}  // namespace traingraph
