#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <traingraph/device.h>
#include <traingraph/tensor.h>

#include "ir/type.h"
#include "runtime/backend.h"

namespace traingraph {

class Stream;

// One parameter on one device: the master buffer with one layout, shared by every graph over the
// tensor, and the optimizer's buffers in the same layout.
struct ParameterState {
  const Backend* backend = nullptr;
  DataType data_type = DataType::kFloat32;
  Shape shape;  // canonical: the shape of the layer that uses it
  ir::Layout layout;
  std::shared_ptr<std::byte> master;
  std::map<std::string, std::shared_ptr<std::byte>> slots;
  // Counts changes of layout: programs compiled for an older one compile again.
  std::uint64_t layout_version = 0;
  // Whether a training program has chosen the layout for good.
  bool layout_chosen = false;
  std::shared_ptr<Stream> stream;

  ir::Type type() const { return {data_type, shape, false}; }
};

// Brings the tensor's parameter onto a device in a canonical shape, uploading the host copy when
// there is a newer one. Changing the device moves it.
ParameterState& place_parameter(Tensor& tensor, const Backend& backend, const Shape& shape);
// Converts master and slots. Only before a program over the new layout runs.
void change_layout(ParameterState& state, const ir::Layout& layout);
// A zeroed buffer of this name in the master's layout, made on first use.
std::byte* slot_buffer(ParameterState& state, const std::string& name);
// Between dense row-major host memory and a buffer in the state's layout.
void copy_to_host(const ParameterState& state, const std::byte* buffer, void* host);
void copy_from_host(const ParameterState& state, std::byte* buffer, const void* host);

// Something that can read a tensor's newest value out of a compiled graph.
class ValueReader {
 public:
  virtual ~ValueReader() = default;
  // Raises InvalidArgument when the value is not readable.
  virtual void read(const Tensor& tensor, void* bytes, std::size_t length) = 0;
};

// Everything behind a tensor's handle.
struct TensorState {
  std::int64_t id = 0;
  TensorDescriptor descriptor;
  std::string label;
  TensorData data;
  // Raised when `data` was replaced; uploads happen when a program is about to run.
  bool host_is_newer = false;
  std::unique_ptr<ParameterState> parameter;
  std::vector<TensorData> initial_optimizer_data;
  std::weak_ptr<ValueReader> reader;
};

}  // namespace traingraph
