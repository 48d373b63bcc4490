#include "runtime/parameter_store.h"

#include <cstring>

#include <traingraph/errors.h>

#include "runtime/layout_copy.h"
#include "runtime/stream.h"

namespace traingraph {
namespace {

void upload(const ParameterState& state, const TensorData& data, std::byte* buffer) {
  copy_between_layouts(state.type(), {}, static_cast<const std::byte*>(data.bytes), state.layout,
                       buffer);
}

}  // namespace

ParameterState& place_parameter(Tensor& tensor, const Backend& backend, const Shape& shape) {
  TensorState& t = tensor.state();
  if (t.parameter != nullptr && t.parameter->backend == &backend) return *t.parameter;
  if (t.parameter != nullptr) {
    // Another device: the newest values travel through the host copy; moments start again there.
    tensor.synchronize_data();
  }
  if (t.data.bytes == nullptr) {
    throw InvalidArgument("[compile] expected data for parameter tensor '" + t.label +
                          "' of shape " + to_string(t.descriptor.shape) + " but it has none");
  }
  const std::shared_ptr<Stream> stream =
      t.parameter != nullptr ? t.parameter->stream : std::make_shared<Stream>();
  const std::uint64_t version = t.parameter != nullptr ? t.parameter->version + 1 : 0;
  auto state = std::make_unique<ParameterState>();
  state->backend = &backend;
  state->data_type = t.descriptor.data_type;
  state->shape = shape;
  state->stream = stream;
  state->version = version;
  state->master = backend.allocate(state->bytes());
  if (state->master != nullptr) upload(*state, t.data, state->master.get());
  t.host_is_newer = false;
  t.parameter = std::move(state);
  return *t.parameter;
}

void upload_if_newer(Tensor& tensor) {
  TensorState& t = tensor.state();
  if (!t.host_is_newer || t.parameter == nullptr || t.parameter->master == nullptr) return;
  upload(*t.parameter, t.data, t.parameter->master.get());
  t.host_is_newer = false;
}

void change_layout(ParameterState& state, const ir::Layout& layout) {
  if (state.layout == layout) return;
  const std::size_t bytes = ir::storage_bytes(state.type(), layout);
  auto converted = [&](const std::shared_ptr<std::byte>& old) {
    std::shared_ptr<std::byte> buffer = state.backend->allocate(bytes);
    if (buffer != nullptr && old != nullptr) {
      copy_between_layouts(state.type(), state.layout, old.get(), layout, buffer.get());
    }
    return buffer;
  };
  state.master = converted(state.master);
  for (auto& [name, buffer] : state.slots) buffer = converted(buffer);
  state.layout = layout;
  ++state.version;
}

std::byte* slot_buffer(Tensor& tensor, const std::string& name) {
  TensorState& t = tensor.state();
  ParameterState& state = *t.parameter;
  for (auto& [slot, buffer] : state.slots) {
    if (slot == name) return buffer.get();
  }
  std::shared_ptr<std::byte> buffer = state.backend->allocate(state.bytes());
  const std::size_t position = state.slots.size();
  if (position < t.initial_optimizer_data.size() && buffer != nullptr) {
    upload(state, t.initial_optimizer_data[position], buffer.get());
  }
  state.slots.emplace_back(name, buffer);
  return buffer.get();
}

}  // namespace traingraph
