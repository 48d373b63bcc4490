#include "graph/data_binding.h"

#include <traingraph/errors.h>

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

template <class T>
void check_classes(const BoundSlot& slot, std::int64_t count, const void* bytes) {
  const T* labels = static_cast<const T*>(bytes);
  for (std::int64_t row = 0; row < count; ++row) {
    const auto label = static_cast<std::int64_t>(labels[row]);
    if (label >= -1 && label < slot.classes) continue;
    throw InvalidArgument("[labels '" + slot.name + "'] expected a class from 0 to " +
                          std::to_string(slot.classes - 1) + " or -1 but got " +
                          std::to_string(label) + " in row " + std::to_string(row));
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

void check_classes(const BoundSlot& slot, const ir::Type& type, const TensorData& data) {
  if (slot.classes == 0) return;
  switch (type.data_type) {
    case DataType::kInt32:
      return check_classes<std::int32_t>(slot, type.elements(), data.bytes);
    case DataType::kInt64:
      return check_classes<std::int64_t>(slot, type.elements(), data.bytes);
    default:
      throw DataTypeError("[labels '" + slot.name + "'] expected int32 or int64 classes but got " +
                          name(type.data_type));
  }
}

std::string names_of(const NamedTensors& tensors) {
  std::string text;
  for (const auto& [name, tensor] : tensors) {
    text += (text.empty() ? "'" : ", '") + name + "'";
  }
  return text.empty() ? "none" : text;
}

}  // namespace traingraph
