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

// How a message begins; most calls have none to write.
struct Subject {
  const char* what;
  const std::string& name;
};
std::string operator+(const Subject& subject, const std::string& text) {
  return std::string("[") + subject.what + " '" + subject.name + "'] " + text;
}

void check(const Subject& subject, const ir::Type& type, const TensorData& data) {
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

// Raises unless the graph can reach the memory.
void check_place(const Subject& subject, const TensorData& data, const Backend& backend) {
  if (data.gpu < 0 || data.gpu == backend.gpu()) return;
  const std::string own = backend.gpu() < 0 ? "" : " or of GPU " + std::to_string(backend.gpu());
  throw InvalidArgument(subject + "expected memory of the host" + own +
                        ", because the graph is compiled for " + backend.name() +
                        ", but got memory of GPU " + std::to_string(data.gpu) +
                        "; copy it there, or compile for that GPU");
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

}  // namespace

void refuse_integer(const std::string& name, const IntegerRange& range, const Shape& shape,
                    std::int64_t position, std::int64_t value) {
  const std::string highest = std::to_string(range.count - 1);
  const std::string got = " but got " + std::to_string(value);
  const std::string where = " at " + place(shape, position) + range.layer;
  if (range.descends) {
    throw InvalidArgument("[lengths '" + name + "'] expected a length from 0 to " + highest + got +
                          where);
  }
  if (range.lowest < 0) {
    throw InvalidArgument("[labels '" + name + "'] expected a class from 0 to " + highest +
                          " or -1" + got + " in row " + std::to_string(position) + range.layer);
  }
  throw InvalidArgument("[indices '" + name + "'] expected an index from 0 to " + highest + got +
                        where);
}

namespace {

template <class T>
void check_integers(const std::string& name, const IntegerRange& range, const Shape& shape,
                    const TensorData& data) {
  const T* integers = static_cast<const T*>(data.bytes);
  const std::int64_t count = element_count(shape);
  for (std::int64_t k = 0; k < count; ++k) {
    const auto value = static_cast<std::int64_t>(integers[k]);
    if (value < range.lowest || value >= range.count) refuse_integer(name, range, shape, k, value);
    if (!range.descends || k == 0 || integers[k] <= integers[k - 1]) continue;
    throw InvalidArgument("[lengths '" + name + "'] expected lengths that descend but got " +
                          std::to_string(value) + " after " + std::to_string(integers[k - 1]) +
                          " at " + place(shape, k) + range.layer);
  }
}

}  // namespace

void check_data(const BoundSlot& slot, const ir::Type& type, const TensorData& data,
                const Backend& backend) {
  const Subject subject{"tensor", slot.name};
  check_place(subject, data, backend);
  check(subject, type, data);
}

void check_output(const std::string& name, const ir::Type& type, const TensorData& data,
                  const Backend& backend) {
  const Subject subject{"output", name};
  check_place(subject, data, backend);
  if (!data.writable) throw InvalidArgument(subject + "expected writable memory");
  check(subject, type, data);
}

void check_range(const std::string& name, const IntegerRange& range, const ir::Type& type,
                 const TensorData& data) {
  if (range.count == 0 || data.bytes == nullptr || data.gpu >= 0) return;
  switch (type.data_type) {
    case DataType::kInt32:
      return check_integers<std::int32_t>(name, range, type.shape, data);
    case DataType::kInt64:
      return check_integers<std::int64_t>(name, range, type.shape, data);
    default:
      throw DataTypeError("[labels '" + name + "'] expected int32 or int64 classes but got " +
                          traingraph::name(type.data_type));
  }
}

void check_range(const LoweredGraph::Slot& slot) {
  if (slot.range.count == 0) return;
  TensorState& state = slot.tensor->state();
  const ParameterState* store = state.parameter.get();
  const bool on_device = store != nullptr && store->backend->computes() && !state.host_is_newer;
  const TensorDescriptor& d = state.descriptor;
  const ir::Type type{d.data_type, d.shape, false};
  if (!on_device) {
    const std::lock_guard lock(state.host);
    return check_range(state.label.get(), slot.range, type, state.given().on_host());
  }
  std::vector<std::byte> values(ir::storage_bytes(type, {}));
  store->stream->run([&] {
    const ParameterState& now = *state.parameter;
    download(*now.backend, now.type(), now.layout, now.master.get(), values.data());
  });
  check_range(state.label.get(), slot.range, type, TensorData::raw(values.data(), values.size()));
}

std::string names_of(const NamedTensors& tensors) {
  std::string text;
  for (const auto& [name, tensor] : tensors) {
    text += (text.empty() ? "'" : ", '") + name + "'";
  }
  return text.empty() ? "none" : text;
}

std::string declared_shapes(const GraphState& graph) {
  std::string text;
  for (const auto* group : {&graph.inputs, &graph.loss_labels, &graph.loss_label_weights}) {
    for (const auto& [name, tensor] : *group) {
      text += (text.empty() ? "'" : ", '") + name + "' " + to_string(tensor->descriptor().shape);
    }
  }
  return text;
}

}  // namespace traingraph
