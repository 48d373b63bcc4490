// Over 400 lines: whose memory a tensor's data is, on the host and on the device, is one subject.
#include <traingraph/tensor.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <new>
#include <numbers>
#include <random>

#include <traingraph/device.h>
#include <traingraph/errors.h>

#include "runtime/memory/fill.h"
#include "runtime/memory/parameter_store.h"
#include "runtime/memory/transfer.h"
#include "runtime/numbers/fans.h"
#include "runtime/numbers/finite.h"
#include "runtime/numbers/random.h"
#include "runtime/threads/stream.h"

namespace traingraph {
namespace {

std::atomic<std::int64_t> next_tensor_id{0};

TensorData own_bytes(const TensorDescriptor& descriptor) {
  TensorData data;
  data.length = descriptor.allocation_bytes();
  std::shared_ptr<std::byte[]> bytes(new (std::nothrow) std::byte[data.length]());
  if (bytes == nullptr) {
    throw OutOfMemory("[tensor] expected " + std::to_string(data.length) +
                      " bytes of host memory for " + to_string(descriptor.shape) + " but got none");
  }
  data.bytes = bytes.get();
  data.data_type = descriptor.data_type;
  data.shape = descriptor.shape;
  data.owner = std::shared_ptr<const void>(bytes, bytes.get());
  return data;
}

// The tensor's part of longer or untyped bytes.
TensorData own_copy(const TensorDescriptor& d, const TensorData& data) {
  return TensorData::copy_of(data.bytes, d.allocation_bytes(), d.data_type, d.shape);
}

// Whether shapes are the same but for extents of 1.
bool same_elements(const Shape& a, const Shape& b) {
  auto squeezed = [](const Shape& shape) {
    Shape result;
    for (std::int64_t extent : shape) {
      if (extent != 1) result.push_back(extent);
    }
    return result;
  };
  return squeezed(a) == squeezed(b);
}

// Raises unless the data can be this tensor's.
void check_fits(const TensorDescriptor& descriptor, const std::string& label,
                const TensorData& data) {
  const std::string subject = "[tensor '" + label + "'] ";
  if (data.bytes == nullptr) throw InvalidArgument(subject + "expected data but got none");
  if (data.data_type == DataType::kInvalid) {
    if (data.length >= descriptor.allocation_bytes()) return;
    throw ShapeError(subject + "expected at least " +
                     std::to_string(descriptor.allocation_bytes()) + " bytes but got " +
                     std::to_string(data.length));
  }
  if (data.data_type != descriptor.data_type) {
    throw DataTypeError(subject + "expected data of type " + name(descriptor.data_type) +
                        " but got " + name(data.data_type));
  }
  if (!same_elements(data.shape, descriptor.shape)) {
    throw ShapeError(subject + "expected data of shape " + to_string(descriptor.shape) +
                     " but got " + to_string(data.shape));
  }
}

bool given_on_a_device(TensorState& state) {
  const std::lock_guard lock(state.host);
  return state.device_data.bytes != nullptr;
}

thread_local const ValueReader* handlers_reader = nullptr;  // null outside of handlers

// Of the graph whose forward pass has run last, when those that were submitted have run. The newest
// graph's before any has.
std::shared_ptr<ValueReader> reader_of(TensorState& state) {
  std::vector<std::shared_ptr<ValueReader>> found;
  {
    const std::lock_guard lock(state.host);
    for (const auto& known : state.readers) {
      if (auto reader = known.lock()) found.push_back(std::move(reader));
    }
  }
  for (const auto& reader : found) {
    if (reader.get() == handlers_reader) return reader;
  }
  if (found.size() < 2) return found.empty() ? nullptr : found.front();
  for (const auto& reader : found) reader->finish();
  return *std::ranges::max_element(found.rbegin(), found.rend(), {},
                                   [](const auto& reader) { return reader->newest_pass(); });
}

template <class T>
bool all_finite(const void* bytes, std::int64_t count) {
  const T* values = static_cast<const T*>(bytes);
  for (std::int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) return false;
  }
  return true;
}

}  // namespace

TensorData TensorData::raw(void* bytes, std::size_t length) {
  TensorData data;
  data.bytes = bytes;
  data.length = length;
  return data;
}

TensorData TensorData::raw(const void* bytes, std::size_t length) {
  TensorData data = raw(const_cast<void*>(bytes), length);
  data.writable = false;
  return data;
}

TensorData TensorData::of(float* values, Shape shape) {
  TensorData data = raw(values, static_cast<std::size_t>(element_count(shape)) * sizeof(float));
  data.data_type = DataType::kFloat32;
  data.shape = std::move(shape);
  return data;
}

TensorData TensorData::of(const float* values, Shape shape) {
  TensorData data = of(const_cast<float*>(values), std::move(shape));
  data.writable = false;
  return data;
}

TensorData TensorData::copy_of(const void* bytes, std::size_t length, DataType type, Shape shape) {
  TensorDescriptor descriptor;
  descriptor.shape = std::move(shape);
  descriptor.data_type = type;
  TensorData data = own_bytes(descriptor);
  if (length > 0) std::memcpy(data.bytes, bytes, std::min(length, data.length));
  return data;
}

TensorData TensorData::on_host() const {
  if (gpu < 0 || bytes == nullptr) return *this;
  TensorData copy = *this;
  const std::shared_ptr<std::byte[]> memory(new std::byte[length]);
  Device::gpu(gpu).read(memory.get(), bytes, length);
  copy.bytes = memory.get();
  copy.gpu = -1;
  copy.writable = true;
  copy.owner = std::shared_ptr<const void>(memory, memory.get());
  return copy;
}

Tensor::Tensor(TensorDescriptor descriptor) : state_(std::make_unique<TensorState>()) {
  state_->id = next_tensor_id++;
  state_->descriptor = std::move(descriptor);
}
Tensor::~Tensor() = default;

TensorPtr Tensor::create(TensorDescriptor descriptor) {
  return TensorPtr(new Tensor(std::move(descriptor)));
}

TensorPtr Tensor::create(TensorDescriptor descriptor, TensorData data) {
  TensorPtr tensor = create(std::move(descriptor));
  tensor->set_data(std::move(data));
  return tensor;
}

TensorPtr Tensor::filled(TensorDescriptor descriptor, double value) {
  TensorPtr tensor = create(std::move(descriptor));
  TensorData& data = tensor->state_->data = own_bytes(tensor->descriptor());
  fill(data.bytes, data.length, tensor->descriptor().data_type, value);
  ++tensor->state_->writes;
  return tensor;
}

TensorPtr Tensor::random(TensorDescriptor descriptor, RandomInitializerType type) {
  const Fans fans = fans_of(descriptor.shape);
  return random(std::move(descriptor), type, fans.in, fans.out);
}

TensorPtr Tensor::random(TensorDescriptor descriptor, RandomInitializerType type,
                         std::int64_t fan_in, std::int64_t fan_out) {
  if (!is_floating_point(descriptor.data_type) || element_bytes(descriptor.data_type) < 4) {
    throw InvalidArgument(std::string("[tensor] expected float32 or float64 for random values "
                                      "but got ") +
                          name(descriptor.data_type));
  }
  if (fan_in < 1 || fan_out < 1) {
    throw InvalidArgument("[tensor] expected fans of at least 1 but got " + std::to_string(fan_in) +
                          " and " + std::to_string(fan_out));
  }
  TensorPtr tensor = create(std::move(descriptor));
  TensorData data = own_bytes(tensor->descriptor());
  std::mt19937_64 generator(next_random_stream());
  // Formed here and not by <random>'s distributions, whose results differ between libraries.
  auto uniform = [&] { return static_cast<double>(generator() >> 11) * 0x1.0p-53; };
  const double fans = static_cast<double>(fan_in) + static_cast<double>(fan_out);
  auto draw = [&]() -> double {
    switch (type) {
      case RandomInitializerType::kUniform:
        return uniform();
      case RandomInitializerType::kGlorotUniform:
        return (2 * uniform() - 1) * std::sqrt(6.0 / fans);
      case RandomInitializerType::kXavier: {
        const double radius = std::sqrt(-2 * std::log(1 - uniform()));
        return radius * std::cos(2 * std::numbers::pi * uniform()) * std::sqrt(2.0 / fans);
      }
      case RandomInitializerType::kInvalid:
        break;
    }
    throw InvalidArgument("[tensor] expected UNIFORM, GLOROT_UNIFORM or XAVIER but got raw value " +
                          std::to_string(static_cast<int>(type)));
  };
  const std::int64_t count = element_count(tensor->descriptor().shape);
  const bool wide = tensor->descriptor().data_type == DataType::kFloat64;
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = draw();
    if (wide) {
      static_cast<double*>(data.bytes)[i] = value;
    } else {
      static_cast<float*>(data.bytes)[i] = static_cast<float>(value);
    }
  }
  tensor->state_->data = std::move(data);
  ++tensor->state_->writes;
  return tensor;
}

std::int64_t Tensor::id() const { return state_->id; }
const TensorDescriptor& Tensor::descriptor() const { return state_->descriptor; }
std::string TensorState::name() {
  std::string text = label.get();
  const std::lock_guard lock(host);
  if (text.empty()) text = place.text();
  return text.empty() ? "data" + std::to_string(id) : text;
}

std::string Tensor::label() const { return state_->name(); }
void Tensor::set_label(std::string label) { state_->label.set(std::move(label)); }
std::optional<Device> Tensor::device() const { return state_->device; }
const TensorData& Tensor::data() const { return state_->data; }

TensorData Tensor::host_data() {
  struct Held {
    TensorPtr tensor;
    std::shared_ptr<const void> memory;
  };
  TensorData data = state_->data;
  if (data.bytes == nullptr) return data;
  data.data_type = descriptor().data_type;
  data.shape = descriptor().shape;
  data.owner = std::make_shared<const Held>(Held{shared_from_this(), data.owner});
  return data;
}

void Tensor::set_data(TensorData data) {
  check_fits(descriptor(), label(), data);
  const std::lock_guard lock(state_->host);
  ++state_->writes;
  state_->host_is_newer = true;
  if (data.gpu >= 0) {
    state_->device_data = std::move(data);
    state_->data = {};
    return;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(data.bytes);
  if (!data.writable || address % element_bytes(descriptor().data_type) != 0) {
    data = TensorData::copy_of(data.bytes, data.length, descriptor().data_type, descriptor().shape);
  }
  state_->data = std::move(data);
  state_->device_data = {};
}

std::uint64_t next_pass(const ValueReader* reader) {
  static std::atomic<std::uint64_t> passes{0};
  if (handlers_reader != nullptr) handlers_reader = reader;
  return ++passes;
}

HandlerReads::HandlerReads(const ValueReader* own) : before_(handlers_reader) {
  handlers_reader = own;
}
HandlerReads::~HandlerReads() { handlers_reader = before_; }

void add_reader(TensorState& state, std::weak_ptr<ValueReader> reader) {
  const std::lock_guard lock(state.host);
  std::erase_if(state.readers, [&](const auto& known) {
    return known.expired() || (!known.owner_before(reader) && !reader.owner_before(known));
  });
  state.readers.push_back(std::move(reader));
}

bool Tensor::has_valid_numerics() const {
  if (state_->data.bytes == nullptr) return true;
  const std::int64_t count = element_count(descriptor().shape);
  switch (descriptor().data_type) {
    case DataType::kFloat32:
      return all_finite<float>(state_->data.bytes, count);
    case DataType::kFloat64:
      return all_finite<double>(state_->data.bytes, count);
    case DataType::kFloat16:
    case DataType::kBFloat16:
      return all_finite_half(descriptor().data_type, static_cast<std::byte*>(state_->data.bytes),
                             static_cast<std::size_t>(count) * 2);
    default:
      return true;
  }
}

void Tensor::synchronize_data() {
  const ParameterState* parameter = state_->parameter.get();
  const bool on_device = parameter != nullptr && parameter->backend->traits().computes;
  const bool given_on_device = given_on_a_device(*state_);
  if (!on_device && !given_on_device && reader_of(*state_) == nullptr) return;
  TensorData into;
  {
    const std::lock_guard lock(state_->host);
    if (state_->data.bytes == nullptr) state_->data = own_bytes(descriptor());
    if (state_->host_is_newer && on_device && !given_on_device) return;
    into = state_->data;
  }
  copy_to(into.bytes, descriptor().allocation_bytes());
  const std::lock_guard lock(state_->host);
  state_->device_data = {};
}

void Tensor::copy_to(void* bytes, std::size_t length) const {
  const std::size_t needed = descriptor().allocation_bytes();
  if (length < needed) {
    throw ShapeError("[tensor '" + label() + "'] expected room for " + std::to_string(needed) +
                     " bytes but got " + std::to_string(length));
  }
  const ParameterState* parameter = state_->parameter.get();
  if (parameter != nullptr && parameter->backend->traits().computes && !state_->host_is_newer) {
    parameter->stream->run([&] {
      const ParameterState& now = *state_->parameter;
      download(*now.backend, now.type(), now.layout, now.master.get(), bytes);
    });
    return;
  }
  std::unique_lock lock(state_->host);
  if (state_->device_data.bytes != nullptr) {
    std::memcpy(bytes, state_->device_data.on_host().bytes, needed);
    return;
  }
  lock.unlock();
  if (const std::shared_ptr<ValueReader> reader = reader_of(*state_)) {
    reader->read(*this, bytes, length);
    return;
  }
  lock.lock();
  if (state_->data.bytes == nullptr) {
    throw InvalidArgument("[tensor '" + label() + "'] has no data and no graph has computed it");
  }
  std::memcpy(bytes, state_->data.bytes, needed);
}

TensorData Tensor::device_data() const {
  const ParameterState* parameter = state_->parameter.get();
  std::unique_lock lock(state_->host);
  TensorData view = state_->given();
  lock.unlock();
  if (parameter != nullptr && parameter->backend->traits().computes && !state_->host_is_newer) {
    parameter->stream->run([&] { view = state_->parameter->view(label()); });
  } else if (const std::shared_ptr<ValueReader> reader = reader_of(*state_);
             reader != nullptr && !given_on_a_device(*state_)) {
    view = reader->view(*this);
  }
  if (view.bytes == nullptr) {
    throw InvalidArgument("[tensor '" + label() + "'] has no data and no graph has computed it");
  }
  view.data_type = descriptor().data_type;
  view.length = std::min(view.length, descriptor().allocation_bytes());
  if (view.shape.empty() || same_elements(view.shape, descriptor().shape)) {
    view.shape = descriptor().shape;
  }
  view.writable = false;
  return view;
}

std::vector<TensorData> Tensor::optimizer_data() const {
  const ParameterState* parameter = state_->parameter.get();
  if (!state_->optimizer_data_is_newer && parameter != nullptr) {
    std::vector<std::string> names;
    parameter->stream->run([&] { names = state_->parameter->optimizer_slots; });
    return copy_optimizer_data(*this, names);
  }
  const std::lock_guard lock(state_->host);
  std::vector<TensorData> result;
  for (const TensorData& set : state_->optimizer_data) {
    result.push_back(
        TensorData::copy_of(set.bytes, set.length, descriptor().data_type, descriptor().shape));
  }
  return result;
}

void Tensor::synchronize_optimizer_data() {
  std::vector<TensorData> newest = optimizer_data();
  const std::lock_guard lock(state_->host);
  state_->optimizer_data = std::move(newest);
}

void Tensor::set_optimizer_data(std::vector<TensorData> data) {
  for (TensorData& slot : data) {
    check_fits(descriptor(), label(), slot);
    slot = own_copy(descriptor(), slot.on_host());
  }
  const std::lock_guard lock(state_->host);
  state_->optimizer_data_is_newer = !data.empty();
  state_->optimizer_data = std::move(data);
}

TensorPtr Tensor::copy() const {
  TensorPtr tensor = create(descriptor());
  const std::lock_guard lock(state_->host);
  const TensorData data = state_->given().on_host();
  if (data.bytes != nullptr) tensor->state_->data = own_copy(descriptor(), data);
  tensor->state_->host_is_newer = data.bytes != nullptr;
  tensor->state_->writes = data.bytes != nullptr ? 1 : 0;
  tensor->set_optimizer_data(state_->optimizer_data);
  return tensor;
}

}  // namespace traingraph
