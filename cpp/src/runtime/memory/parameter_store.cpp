// Master buffers of parameters: placed on a device, uploaded when the host copy is newer, and
// converted to another layout with their optimizer buffers.
#include "runtime/memory/parameter_store.h"

#include <algorithm>

#include <traingraph/errors.h>

#include "runtime/device_memory.h"
#include "runtime/foreign_streams.h"
#include "runtime/memory/optimizer_buffers.h"
#include "runtime/memory/transfer.h"
#include "runtime/threads/stream.h"

namespace traingraph {
namespace {

void upload(const ParameterState& state, const TensorData& data, std::byte* buffer) {
  if (data.gpu < 0) return upload(*state.backend, state.type(), data.bytes, state.layout, buffer);
  if (data.gpu == gpu_of(*state.backend) && state.layout.plain()) {
    return copy_memory(*state.backend, buffer, static_cast<const std::byte*>(data.bytes),
                       state.bytes());
  }
  upload(*state.backend, state.type(), data.on_host().bytes, state.layout, buffer);
}

std::shared_ptr<std::byte> allocated_slot(const ParameterState& state) {
  return state.backend->allocate(ir::storage_bytes(state.slot_type(), state.slot_layout()));
}

// Gives a parameter on another device the optimizer's buffers it had on this one.
void move_slots(const ParameterState& from, ParameterState& to) {
  to.parts = from.parts;
  for (const auto& [name, old] : from.slots) {
    const std::shared_ptr<std::byte> buffer = allocated_slot(to);
    if (old != nullptr && buffer != nullptr) {
      from.stream->run([&] {
        std::vector<std::byte> plain(ir::storage_bytes(from.slot_type(), {}));
        download(*from.backend, from.slot_type(), from.slot_layout(), old.get(), plain.data());
        upload(*to.backend, to.slot_type(), plain.data(), to.slot_layout(), buffer.get());
      });
    }
    to.slots.emplace_back(name, buffer);
  }
  to.optimizer_slots = from.optimizer_slots;
}

std::atomic<std::uint64_t>& moves() {
  static std::atomic<std::uint64_t> count{0};
  return count;
}

}  // namespace

std::uint64_t parameter_moves() { return moves().load(std::memory_order_acquire); }

void ParameterPlace::replace(std::unique_ptr<ParameterState> next) {
  ParameterState* const before = get();
  now_.store(next.get(), std::memory_order_release);
  all_.push_back(std::move(next));
  if (before == nullptr) return;
  before->master = nullptr;
  before->slots.clear();
  ++before->version;
  ++moves();
}

std::int64_t BufferParts::elements(const Shape& whole) const {
  const auto parts = static_cast<std::int64_t>(count);
  return (element_count(whole) + parts - 1) / parts;
}

std::vector<std::byte> BufferParts::cut(const ir::Type& type, const std::byte* whole) const {
  const ir::Type part{type.data_type, {elements(type.shape)}, false};
  std::vector<std::byte> bytes(ir::storage_bytes(part, {}));
  const std::size_t all = ir::storage_bytes(type, {});
  const std::size_t first = std::min(own * bytes.size(), all);
  std::copy_n(whole + first, std::min(bytes.size(), all - first), bytes.data());
  return bytes;
}

ir::Type ParameterState::slot_type() const {
  if (parts == nullptr) return type();
  return {data_type, {parts->elements(shape)}, false};
}

TensorData ParameterState::view(const std::string& label) const {
  if (!layout.plain()) {
    throw Unsupported("[tensor '" + label + "'] expected a dense row-major value but " +
                      backend->name() + " keeps it as " + ir::to_string(layout) +
                      "; read it with copy_data_from_device_memory");
  }
  if (gpu_of(*backend) < 0) finish_work(*backend);  // a host's address is read at once
  TensorData data;
  data.bytes = master.get();
  data.length = bytes();
  data.gpu = gpu_of(*backend);
  data.owner = master;
  return data;
}

ParameterState& place_parameter(Tensor& tensor, const Backend& backend, const Shape& shape) {
  TensorState& t = tensor.state();
  if (t.parameter != nullptr && t.parameter->backend == &backend) return *t.parameter;
  if (t.parameter != nullptr) {
    // Another device: the newest values travel through the host copies.
    tensor.synchronize_data();
  }
  std::unique_lock given(t.host);
  if (t.given().bytes == nullptr) {
    throw InvalidArgument("[compile] expected data for parameter tensor '" + t.name() +
                          "' of shape " + to_string(t.descriptor.shape) + " but it has none");
  }
  given.unlock();
  const std::shared_ptr<Stream> stream =
      t.parameter != nullptr ? t.parameter->stream : std::make_shared<Stream>();
  const std::uint64_t version = t.parameter != nullptr ? t.parameter->version + 2 : 0;
  auto state = std::make_unique<ParameterState>();
  state->backend = &backend;
  state->data_type = t.descriptor.data_type;
  state->shape = shape;
  state->stream = stream;
  state->version = version;
  state->master = backend.allocate(state->bytes());
  const std::lock_guard lock(t.host);
  t.host_is_newer = false;
  if (state->master != nullptr) {
    upload(*state, t.given(), state->master.get());
    t.device_data = {};
  }
  if (t.parameter != nullptr) move_slots(*t.parameter, *state);
  t.parameter.replace(std::move(state));
  return *t.parameter;
}

void upload_if_newer(Tensor& tensor) {
  TensorState& t = tensor.state();
  if (!t.host_is_newer || t.parameter == nullptr || t.parameter->master == nullptr) return;
  const std::lock_guard lock(t.host);
  t.host_is_newer = false;
  upload(*t.parameter, t.given(), t.parameter->master.get());
  t.device_data = {};
}

void change_layout(ParameterState& state, const ir::Layout& layout) {
  if (state.layout == layout) return;
  const std::size_t bytes = ir::storage_bytes(state.type(), layout);
  const auto converted = [&](const std::shared_ptr<std::byte>& old) {
    std::shared_ptr<std::byte> buffer = state.backend->allocate(bytes);
    if (buffer != nullptr && old != nullptr) {
      convert(*state.backend, state.type(), state.layout, old.get(), layout, buffer.get());
    }
    return buffer;
  };
  state.master = converted(state.master);
  for (auto& [name, buffer] : state.slots) {
    if (state.parts == nullptr) buffer = converted(buffer);
  }
  state.layout = layout;
  ++state.version;
  ++moves();
}

void share_slots(Tensor& tensor, std::shared_ptr<const BufferParts> parts) {
  ParameterState& state = *tensor.state().parameter;
  if (state.parts != nullptr) {
    if (parts != nullptr && parts->own == state.parts->own && parts->count == state.parts->count) {
      return;
    }
    throw InvalidArgument("[compile] expected shard_optimizer over the same ranks for tensor '" +
                          tensor.label() +
                          "', of whose optimizer buffers this rank has a part, but got " +
                          (parts == nullptr ? "none" : "others") +
                          "; save a checkpoint, and load it in a graph of other tensors");
  }
  if (parts == nullptr) return;
  std::vector<std::byte> whole(ir::storage_bytes(state.type(), {}));
  const auto before = std::exchange(state.slots, {});
  const ir::Layout layout = state.layout;
  state.parts = std::move(parts);
  for (const auto& [name, buffer] : before) {
    std::byte* const part = slot_buffer(tensor, name);
    if (part == nullptr || buffer == nullptr) continue;
    download(*state.backend, state.type(), layout, buffer.get(), whole.data());
    upload(*state.backend, state.slot_type(), state.parts->cut(state.type(), whole.data()).data(),
           {}, part);
  }
  ++state.version;
  ++moves();
}

std::byte* slot_buffer(Tensor& tensor, const std::string& name) {
  TensorState& t = tensor.state();
  ParameterState& state = *t.parameter;
  for (auto& [slot, buffer] : state.slots) {
    if (slot == name) return buffer.get();
  }
  std::shared_ptr<std::byte> buffer = allocated_slot(state);
  state.slots.emplace_back(name, buffer);
  return buffer.get();
}

void check_optimizer_data(const Tensor& tensor, const std::vector<std::string>& names) {
  const TensorState& t = tensor.state();
  if (!t.optimizer_data_is_newer) return;
  if (t.optimizer_data.size() == names.size()) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string wrong = wrong_buffer(names[i], t.optimizer_data[i]);
      if (wrong.empty()) continue;
      throw InvalidArgument("[tensor '" + tensor.label() + "'] " + wrong +
                            " in its optimizer data '" + names[i] + "'");
    }
    return;
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  throw InvalidArgument("[tensor '" + tensor.label() + "'] expected optimizer data for " +
                        std::to_string(names.size()) + " buffers (" + text + ") but got " +
                        std::to_string(t.optimizer_data.size()));
}

void upload_optimizer_data(Tensor& tensor, const std::vector<std::string>& names) {
  TensorState& t = tensor.state();
  if (!t.optimizer_data_is_newer || t.parameter == nullptr) return;
  const std::lock_guard lock(t.host);
  check_optimizer_data(tensor, names);
  t.parameter->optimizer_slots = names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::byte* buffer = slot_buffer(tensor, names[i]);
    if (buffer == nullptr) continue;
    const BufferParts* const parts = t.parameter->parts.get();
    if (parts == nullptr) {
      upload(*t.parameter, t.optimizer_data[i], buffer);
      continue;
    }
    const auto* const whole = static_cast<const std::byte*>(t.optimizer_data[i].bytes);
    upload(*t.parameter->backend, t.parameter->slot_type(),
           parts->cut(t.parameter->type(), whole).data(), {}, buffer);
  }
  t.optimizer_data_is_newer = false;
  if (t.parameter->parts != nullptr) t.optimizer_data.clear();  // of which a part is enough
}

bool has_optimizer_data(const Tensor& tensor, const std::vector<std::string>& names) {
  const TensorState& t = tensor.state();
  if (t.optimizer_data_is_newer) return t.optimizer_data.size() == names.size();
  if (t.parameter == nullptr) return false;
  return std::any_of(t.parameter->slots.begin(), t.parameter->slots.end(), [&](const auto& slot) {
    return std::count(names.begin(), names.end(), slot.first) > 0;
  });
}

std::vector<TensorData> copy_optimizer_data(const Tensor& tensor,
                                            const std::vector<std::string>& names) {
  TensorState& t = tensor.state();
  const TensorDescriptor& d = t.descriptor;
  std::vector<TensorData> result;
  std::vector<std::vector<std::byte>> own;  // parts
  const auto copy = [&](const ParameterState* parameter) {
    const std::lock_guard lock(t.host);
    check_optimizer_data(tensor, names);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const BufferParts* const parts = parameter == nullptr ? nullptr : parameter->parts.get();
      if (parts != nullptr) own.emplace_back(ir::storage_bytes(parameter->slot_type(), {}));
      if (t.optimizer_data_is_newer) {
        const TensorData& set = t.optimizer_data[i];
        result.push_back(TensorData::copy_of(set.bytes, set.length, d.data_type, d.shape));
        continue;
      }
      result.push_back(TensorData::copy_of(nullptr, 0, d.data_type, d.shape));
      if (parameter == nullptr) continue;
      void* const to = parts == nullptr ? result.back().bytes : own.back().data();
      for (const auto& [name, buffer] : parameter->slots) {
        if (name != names[i] || buffer == nullptr) continue;
        download(*parameter->backend, parameter->slot_type(), parameter->slot_layout(),
                 buffer.get(), to);
      }
    }
  };
  if (t.parameter == nullptr) {
    copy(nullptr);
    return result;
  }
  t.parameter->stream->run([&] {
    copy(t.parameter.get());
    // By all processes, whatever was set here.
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::vector<std::byte> all = t.parameter->parts->gather(own[i]);
      if (t.optimizer_data_is_newer) continue;
      std::copy_n(all.data(), result[i].length, static_cast<std::byte*>(result[i].bytes));
    }
  });
  return result;
}

}  // namespace traingraph
