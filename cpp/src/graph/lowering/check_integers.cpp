// Labels, indices and lengths as the host reads them.
#include "graph/lowering/check_integers.h"

#include <traingraph/errors.h>

#include "runtime/memory/parameter_store.h"
#include "runtime/memory/transfer.h"
#include "runtime/threads/stream.h"

namespace traingraph {
namespace {

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
  const bool on_device =
      store != nullptr && store->backend->traits().computes && !state.host_is_newer;
  const TensorDescriptor& d = state.descriptor;
  const ir::Type type{d.data_type, d.shape, false};
  if (!on_device) {
    const std::lock_guard lock(state.host);
    return check_range(slot.tensor->label(), slot.range, type, state.given().on_host());
  }
  std::vector<std::byte> values(ir::storage_bytes(type, {}));
  store->stream->run([&] {
    const ParameterState& now = *state.parameter;
    download(*now.backend, now.type(), now.layout, now.master.get(), values.data());
  });
  check_range(slot.tensor->label(), slot.range, type,
              TensorData::raw(values.data(), values.size()));
}

}  // namespace traingraph
