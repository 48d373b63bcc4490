// Labels, indices and lengths as the host reads them.
#include "graph/lowering/check_integers.h"

#include <traingraph/errors.h>

#include "runtime/memory/parameter_store.h"
#include "runtime/memory/transfer.h"
#include "runtime/threads/stream.h"

namespace traingraph {
namespace {

// "(1, 2)"
std::string text_of(const IntegerPlace& place) {
  Shape index(place.shape.size());
  std::int64_t position = place.position;
  for (std::size_t k = place.shape.size(); k-- > 0;) {
    index[k] = position % place.shape[k];
    position /= place.shape[k];
  }
  return to_string(index);
}

template <class T>
void check_integers(const std::string& name, const IntegerRange& range, const ir::Type& type,
                    const TensorData& data, const SampleRows& samples) {
  const T* integers = static_cast<const T*>(data.bytes);
  const std::int64_t count = type.elements();
  for (std::int64_t k = 0; k < count; ++k) {
    const auto value = static_cast<std::int64_t>(integers[k]);
    if (value < range.lowest || value >= range.count) {
      refuse_integer(name, range, place_in(type, k, samples), value);
    }
    if (!range.descends || k == 0 || integers[k] <= integers[k - 1]) continue;
    throw InvalidArgument("[lengths '" + name + "'] expected lengths that descend but got " +
                          std::to_string(value) + " after " + std::to_string(integers[k - 1]) +
                          " at " + text_of(place_in(type, k, samples)) + range.layer);
  }
}

}  // namespace

IntegerPlace place_in(const ir::Type& type, std::int64_t position, const SampleRows& samples) {
  IntegerPlace place{type.shape, position};
  if (samples.count == 0 || !type.batched) return place;
  const std::int64_t per_row = type.elements() / type.shape[0];
  std::int64_t row = samples.first + position / per_row;
  if (samples.order != nullptr) row = samples.order[row];
  place.shape[0] = samples.count;
  place.position = row * per_row + position % per_row;
  return place;
}

void refuse_integer(const std::string& name, const IntegerRange& range, const IntegerPlace& place,
                    std::int64_t value) {
  const std::string highest = std::to_string(range.count - 1);
  const std::string got = " but got " + std::to_string(value);
  const std::string where = " at " + text_of(place) + range.layer;
  if (range.are_lengths) {
    throw InvalidArgument("[lengths '" + name + "'] expected a length from 0 to " + highest + got +
                          where);
  }
  if (range.lowest < 0) {
    throw InvalidArgument("[labels '" + name + "'] expected a class from 0 to " + highest +
                          " or -1" + got + " in row " + std::to_string(place.position) +
                          range.layer);
  }
  throw InvalidArgument("[indices '" + name + "'] expected an index from 0 to " + highest + got +
                        where);
}

void check_range(const std::string& name, const IntegerRange& range, const ir::Type& type,
                 const TensorData& data, const SampleRows& samples) {
  if (range.count == 0 || data.bytes == nullptr || data.gpu >= 0) return;
  switch (type.data_type) {
    case DataType::kInt32:
      return check_integers<std::int32_t>(name, range, type, data, samples);
    case DataType::kInt64:
      return check_integers<std::int64_t>(name, range, type, data, samples);
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
