// Composes the error of kCheckNumerics: layer, phase, step, tensor, and the first element that is
// not finite.
#include "graph/run/check_numerics.h"

#include <cmath>

#include <traingraph/errors.h>

#include "runtime/numbers/half.h"

namespace traingraph {

using ir::kNone;
using ir::ValueId;

namespace {

template <class T>
std::string first_not_finite(const TensorData& data, const SampleRows& samples) {
  const T* values = static_cast<const T*>(data.bytes);
  const std::size_t count = data.length / sizeof(T);
  for (std::size_t i = 0; i < count; ++i) {
    if (std::isfinite(values[i])) continue;
    const IntegerPlace place = place_in({data.data_type, data.shape, samples.count != 0},
                                        static_cast<std::int64_t>(i), samples);
    const std::string row =
        samples.count == 0
            ? ""
            : " in row " +
                  std::to_string(place.position / (element_count(place.shape) / samples.count)) +
                  ",";
    return (std::isnan(values[i]) ? "NaN" : "infinity") + row + " at element " +
           std::to_string(place.position) + " of " + to_string(place.shape);
  }
  return "NaN or infinity";
}

std::string first_not_finite(TensorData data, const SampleRows& samples) {
  if (ir::is_half(data.data_type)) {
    std::vector<float> numbers(data.length / 2);
    widen(data.data_type, data.bytes, numbers.data(), numbers.size());
    data.bytes = numbers.data();
    data.length = numbers.size() * sizeof(float);
    return first_not_finite<float>(data, samples);
  }
  return data.data_type == DataType::kFloat64 ? first_not_finite<double>(data, samples)
                                              : first_not_finite<float>(data, samples);
}

}  // namespace

void raise_not_finite(const Backend& backend, const LeftValue& left, std::int64_t step,
                      const SampleRows& samples) {
  const CompiledGraph& graph = left.graph;
  const ValueId value = left.value;
  const ir::Graph& ops = graph.program->graph;
  std::string name = "a value inside it";
  bool are_samples = false;
  for (const auto& [tensor, id] : graph.tensors) {
    if (id == value) name = "tensor '" + tensor->label() + "'";
  }
  for (const auto& [tensor, id] : graph.gradients) {
    if (id == value) name = "the gradient of tensor '" + tensor->label() + "'";
  }
  for (const BoundSlot& slot : graph.bound) {
    if (slot.value != value) continue;
    name = "'" + slot.name + "', as it was given,";
    are_samples = ops.value(value).type.batched;
  }
  const ir::NodeId producer = ops.value(value).producer;
  std::string where;
  ir::Phase phase = runs_forward(left.run) ? ir::Phase::forward : ir::Phase::gradient;
  if (producer != kNone) {
    where = ir::where(ops, ops.node(producer));
    phase = ops.node(producer).phase;
  }
  throw NumericError(
      "[check_numerics] expected finite numbers but " + name + " has " +
      first_not_finite(copy_out(backend, left), are_samples ? samples : SampleRows()) + where +
      " in the " + ir::name(phase) + " phase" +
      (step != 0 ? " of step " + std::to_string(step) : ""));
}

}  // namespace traingraph
