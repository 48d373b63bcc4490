#include "graph/data_binding.h"

#include <traingraph/errors.h>

#include "runtime/parameter_store.h"
#include "runtime/stream.h"
#include "runtime/transfer.h"

namespace traingraph {
namespace {

// The same extents but for those of 1.
bool fits(const Shape& actual, const Shape& expected) {
  std::size_t i = 0;
  std::size_t j = 0;
  for (;;) {
    while (i < actual.size() && actual[i] == 1) ++i;
    while (j < expected.size() && expected[j] == 1) ++j;
    if (i == actual.size() || j == expected.size()) break;
    if (actual[i++] != expected[j++]) return false;
  }
  return i == actual.size() && j == expected.size();
}

void check(const std::string& subject, const ir::Type& type, const TensorData& data) {
  const std::size_t needed = ir::storage_bytes(type, {});
  if (data.bytes == nullptr) throw InvalidArgument(subject + "expected data but got none");
  if (data.data_type == DataType::kInvalid) {
    if (data.length >= needed) return;
    throw ShapeError(subject + "expected at least " + std::to_string(needed) + " bytes for " +
                     to_string(type.shape) + " but got " + std::to_string(data.length));
  }
  if (data.data_type != type.data_type) {
    throw DataTypeError(subject + "expected " + name(type.data_type) + " but got " +
                        name(data.data_type));
  }
  if (!fits(data.shape, type.shape)) {
    throw ShapeError(subject + "expected shape " + to_string(type.shape) + " but got " +
                     to_string(data.shape));
  }
}

// "(1, 2)" for the element at this position in row-major order.
std::string place(const Shape& shape, std::int64_t position) {
  Shape index(shape.size());
  for (std::size_t k = shape.size(); k-- > 0;) {
    index[k] = position % shape[k];
    position /= shape[k];
  }
  return to_string(index);
}

template <class T>
void check_integers(const std::string& name, const IntegerRange& range, const Shape& shape,
                    const void* bytes) {
  const T* integers = static_cast<const T*>(bytes);
  const std::int64_t count = element_count(shape);
  for (std::int64_t k = 0; k < count; ++k) {
    const auto value = static_cast<std::int64_t>(integers[k]);
    if (value >= range.lowest && value < range.count) continue;
    const std::string highest = std::to_string(range.count - 1);
    const std::string got = " but got " + std::to_string(value);
    if (range.lowest < 0) {
      throw InvalidArgument("[labels '" + name + "'] expected a class from 0 to " + highest +
                            " or -1" + got + " in row " + std::to_string(k));
    }
    throw InvalidArgument("[indices '" + name + "'] expected an index from 0 to " + highest + got +
                          " at " + place(shape, k));
  }
}

}  // namespace

void check_data(const BoundSlot& slot, const ir::Type& type, const TensorData& data) {
  check("[tensor '" + slot.name + "'] ", type, data);
}

void check_output(const std::string& name, const ir::Type& type, const TensorData& data) {
  const std::string subject = "[output '" + name + "'] ";
  if (!data.writable) throw InvalidArgument(subject + "expected writable memory");
  check(subject, type, data);
}

void check_range(const std::string& name, const IntegerRange& range, const ir::Type& type,
                 const void* bytes) {
  if (range.count == 0 || bytes == nullptr) return;
  switch (type.data_type) {
    case DataType::kInt32:
      return check_integers<std::int32_t>(name, range, type.shape, bytes);
    case DataType::kInt64:
      return check_integers<std::int64_t>(name, range, type.shape, bytes);
    default:
      throw DataTypeError("[labels '" + name + "'] expected int32 or int64 classes but got " +
                          traingraph::name(type.data_type));
  }
}

void check_range(const LoweredGraph::Slot& slot) {
  if (slot.range.count == 0) return;
  const TensorState& state = slot.tensor->state();
  const ParameterState* store = state.parameter.get();
  const bool on_device = store != nullptr && store->master != nullptr && !state.host_is_newer;
  const TensorDescriptor& d = state.descriptor;
  const ir::Type type{d.data_type, d.shape, false};
  if (!on_device) return check_range(state.label, slot.range, type, state.data.bytes);
  std::vector<std::byte> values(ir::storage_bytes(type, {}));
  store->stream->run([&] {
    download(*store->backend, store->type(), store->layout, store->master.get(), values.data());
  });
  check_range(state.label, slot.range, type, values.data());
}

std::string names_of(const NamedTensors& tensors) {
  std::string text;
  for (const auto& [name, tensor] : tensors) {
    text += (text.empty() ? "'" : ", '") + name + "'";
  }
  return text.empty() ? "none" : text;
}

}  // namespace traingraph
