// What a layer uses to emit ops: values of its sources and parameters, writes to parameters, seeds,
// and errors that name it.
#include "layers/emitter.h"

#include <traingraph/data_movement.h>
#include <traingraph/errors.h>
#include <traingraph/indexing.h>
#include <traingraph/resizing.h>

#include "runtime/memory/parameter_store.h"

namespace traingraph {

ir::ValueId Lowering::parameter(const TensorPtr& tensor, const Shape& shape) {
  auto found = parameter_values.find(tensor.get());
  if (found == parameter_values.end()) {
    const ParameterState* state = tensor->state().parameter.get();
    ir::Type type{tensor->descriptor().data_type, state != nullptr ? state->shape : shape, false};
    const int slot = static_cast<int>(parameters.size());
    const ir::ValueId value =
        graph.add_source(ir::Source::parameter, slot, std::move(type), tensor->label());
    parameters.push_back(tensor);
    found = parameter_values.emplace(tensor.get(), value).first;
  }
  const auto now = replaced.find(tensor.get());
  return ops::reshape(graph, now != replaced.end() ? now->second : found->second, shape);
}

ir::ValueId Lowering::step(ir::StepInput input) {
  const auto found = step_values.find(input);
  if (found != step_values.end()) return found->second;
  const DataType type = ir::counts(input) ? DataType::kInt64 : data_type;
  const ir::ValueId value = graph.add_source(ir::Source::step, static_cast<int>(input),
                                             ir::Type{type, {}, false}, ir::name(input));
  step_values.emplace(input, value);
  return value;
}

namespace {

template <class... Layers>
bool is_any_of(const Layer& layer) {
  return ((dynamic_cast<const Layers*>(&layer) != nullptr) || ...);
}

// Whether it gives numbers that its sources have, and computes none.
bool only_moves(const Layer& layer) {
  if (const auto* scatter = dynamic_cast<const Scatter*>(&layer)) {
    return scatter->reduction_type() == ReductionType::kNone;
  }
  if (const auto* upsample = dynamic_cast<const Upsample*>(&layer)) {
    return upsample->sample_mode() == SampleMode::kNearest;
  }
  return is_any_of<Concatenation, Reshape, Transpose, Split, Slice, Pad, Gather, Selection>(layer);
}

}  // namespace

std::vector<ir::ValueId> read_by(const Layer& layer, ir::Graph& graph,
                                 std::vector<ir::ValueId> sources,
                                 std::map<ir::ValueId, ir::ValueId>& widened) {
  std::set<DataType> types;
  for (ir::ValueId value : sources) {
    const DataType type = graph.type(value).data_type;
    if (is_floating_point(type)) types.insert(type);
  }
  if (only_moves(layer) && types.size() < 2) return sources;
  for (ir::ValueId& value : sources) {
    if (!ir::is_half(graph.type(value).data_type)) continue;
    const auto [found, is_new] = widened.try_emplace(value, ir::kNone);
    if (is_new) {
      graph.layer = ir::kNone;
      found->second = ops::cast(graph, value, DataType::kFloat32);
    }
    value = found->second;
  }
  return sources;
}

Emitter::Emitter(Lowering& lowering_in, const Layer& layer_in, std::vector<ir::ValueId> sources_in)
    : lowering(lowering_in),
      graph(lowering_in.graph),
      layer(layer_in),
      sources(std::move(sources_in)) {
  graph.layers.push_back("layer " + std::to_string(layer.id()) + " '" + layer.label() + "'");
  graph.layer = static_cast<int>(graph.layers.size()) - 1;
}

Emitter::Emitter(Lowering& lowering_in, const Layer& layer_in, std::vector<ir::ValueId> sources_in,
                 const std::vector<TensorPtr>& tensors)
    : Emitter(lowering_in, layer_in, std::move(sources_in)) {
  for (const TensorPtr& tensor : tensors) {
    sequence_lengths.push_back(tensor->descriptor().sequence_lengths);
  }
}

ir::ValueId Emitter::parameter(const TensorPtr& tensor, const Shape& shape) {
  const Shape& own = tensor->descriptor().shape;
  if (element_count(own) != element_count(shape)) {
    fail_shape("expected tensor '" + tensor->label() + "' with " +
               std::to_string(element_count(shape)) + " elements, " + to_string(shape) +
               ", but got " + to_string(own));
  }
  return lowering.parameter(tensor, shape);
}

void Emitter::write(const TensorPtr& tensor, ir::ValueId value) {
  const ir::ValueId held = lowering.parameter_values.at(tensor.get());
  value = ops::reshape(graph, value, graph.type(held).shape);
  // A view has no kernel that could write.
  if (graph.node(graph.value(value).producer).op == ir::Op::reshape) {
    value = ops::unary(graph, ir::Scalar::identity, value);
  }
  graph.value(value).writes = held;
}

void Emitter::replace(const TensorPtr& tensor, ir::ValueId value) {
  lowering.replaced[tensor.get()] = value;
  write(tensor, value);
}

void Emitter::expect_sources(std::size_t least, std::size_t most) const {
  if (sources.size() >= least && sources.size() <= most) return;
  std::string expected = std::to_string(least);
  if (most != least) expected += " to " + std::to_string(most);
  fail_argument("expected " + expected + (most == 1 ? " source" : " sources") + " but got " +
                std::to_string(sources.size()));
}

std::string Emitter::message(const std::string& text) const {
  return "[" + layer.description() + "] " + text + " at layer " + std::to_string(layer.id()) +
         " '" + layer.label() + "'";
}

void Emitter::fail_shape(const std::string& text) const { throw ShapeError(message(text)); }
void Emitter::fail_argument(const std::string& text) const { throw InvalidArgument(message(text)); }

std::uint64_t Emitter::seed(std::uint64_t own) const {
  const std::uint64_t base = own != 0 ? own : lowering.random_seed;
  return base * 0x9e3779b97f4a7c15ull + static_cast<std::uint64_t>(graph.layer) + 1;
}

}  // namespace traingraph
