// Evaluates the loss of a lowered graph in float64 on the reference backend, whole or as a function
// of one parameter.
#include "graph/gradients/float64_loss.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include <traingraph/device.h>

#include "graph/gradients/in_parallel.h"

namespace traingraph {
namespace {

using ir::kNone;
using ir::ValueId;

std::unique_ptr<Program> forward_program(const ir::Graph& graph, const Backend& backend,
                                         std::vector<ValueId>& values) {
  passes::PipelineRequest request;
  request.backend = &backend;
  request.fuse = false;
  return passes::compile(graph, request, values);
}

}  // namespace

Float64Program::Float64Program(const ir::Graph& graph, const Backend& backend)
    : program_(forward_program(graph, backend, values_)),
      arena_(backend.allocate(program_->arena_bytes(Run::forward))) {
  program_->bind_arena(arena_.get());
}

void Float64Program::bind(ValueId value, const std::byte* address) {
  const ValueId now = values_[static_cast<std::size_t>(value)];
  if (now != kNone) program_->bind(now, const_cast<std::byte*>(address));  // it is only read
}

void Float64Program::run() {
  check_part();
  program_->run(Run::forward, nullptr);
}

const std::byte* Float64Program::address(ValueId value) const {
  return program_->address(Run::forward, values_[static_cast<std::size_t>(value)]);
}

Float64Loss::Float64Loss(const GradientPoint& point, const Shaking& shaking)
    : point_(point),
      backend_(backend_named(Device::reference().backend())),
      ops_(float64_graph(point.lowered, point.graph->stopped, shaking)) {
  for (ir::Value& value : ops_.graph.values) value.keep = value.source == ir::Source::node;
  for (LoweredGraph::End end : point.lowered.ends) {
    end.value = ops_.values[static_cast<std::size_t>(end.value)];
    ends_.push_back(end);
  }
  program_ = std::make_unique<Float64Program>(ops_.graph, backend_);
  const std::vector<ir::Value>& lowered = point.lowered.lowering.graph.values;
  for (std::size_t v = 0; v < lowered.size(); ++v) {
    if (lowered[v].source == ir::Source::node || ops_.values[v] == kNone) continue;
    sources_.push_back(source_of(static_cast<ValueId>(v), ops_.values[v], shaking));
  }
  for (const SourceBytes& source : sources_) program_->bind(source.value, source.bytes());
  program_->run();
  at_point_ = elements(*program_, {});
}

const std::byte* Float64Loss::SourceBytes::bytes() const {
  return numbers.empty() ? others.data() : reinterpret_cast<const std::byte*>(numbers.data());
}

Float64Loss::SourceBytes Float64Loss::source_of(ValueId lowered_value, ValueId value,
                                                const Shaking& shaking) const {
  SourceBytes result{value, {}, {}};
  const ir::Value& source = point_.lowered.lowering.graph.value(lowered_value);
  const auto slot = static_cast<std::size_t>(source.slot);
  if (source.source == ir::Source::step) {
    // Of those that a forward pass reads: a step begins at its first row.
    const bool is_row = static_cast<ir::StepInput>(source.slot) == ir::StepInput::first_row;
    const std::int64_t number = is_row ? 0 : point_.forward_passes;
    result.others.resize(sizeof number);
    std::memcpy(result.others.data(), &number, sizeof number);
    return result;
  }
  const TensorPtr& tensor = source.source == ir::Source::bound ? point_.lowered.bound[slot].tensor
                                                               : point_.lowered.slots[slot].tensor;
  const TensorData& data = point_.values.at(tensor.get());
  if (!is_floating_point(data.data_type)) {
    const auto* first = static_cast<const std::byte*>(data.bytes);
    result.others.assign(first, first + data.length);
    return result;
  }
  result.numbers = float64_numbers(data);
  std::uint64_t number = static_cast<std::uint64_t>(lowered_value) << 40;
  for (double& one : result.numbers) one *= shaking.factor(number++);
  return result;
}

LossElements Float64Loss::elements(const Float64Program& program,
                                   const std::vector<ValueId>& values) const {
  LossElements result;
  for (const LoweredGraph::End& end : ends_) {
    const bool is_whole = values.empty();
    const ValueId value = is_whole ? end.value : values[static_cast<std::size_t>(end.value)];
    if (value == kNone || ops_.stopped[static_cast<std::size_t>(end.value)]) continue;
    const double factor = end.is_mean ? 1.0 / point_.graph->micro_batches : 1.0;
    const std::byte* at = program.address(value);
    for (std::int64_t k = 0; k < ops_.graph.type(end.value).elements(); ++k) {
      double element = 0;
      std::memcpy(&element, at + k * 8, sizeof element);
      result.push_back(factor * element);
    }
  }
  return result;
}

LossOfParameter::LossOfParameter(Float64Loss& loss, const Tensor& parameter) : loss_(loss) {
  const ValueId lowered = loss.point_.lowered.lowering.parameter_values.at(&parameter);
  const ValueId source = loss.ops_.values[static_cast<std::size_t>(lowered)];
  if (source == kNone) return;
  for (const Float64Loss::SourceBytes& known : loss.sources_) {
    if (known.value == source) moved_ = known.numbers;
  }

  const ir::Graph& whole = loss.ops_.graph;
  const std::vector<bool>& stopped = loss.ops_.stopped;
  ir::Graph graph;
  graph.layers = whole.layers;
  values_.assign(whole.values.size(), kNone);
  values_[static_cast<std::size_t>(source)] = add(graph, source);
  std::map<ValueId, ValueId> given;  // of the whole graph: computed once and for all
  const auto moves = [&](ValueId value) {
    return values_[static_cast<std::size_t>(value)] != kNone &&
           !stopped[static_cast<std::size_t>(value)];
  };
  for (const ir::Node& node : whole.nodes) {
    if (std::none_of(node.inputs.begin(), node.inputs.end(), moves)) continue;
    ir::Node copy = node;
    for (ValueId& input : copy.inputs) {
      if (moves(input)) {
        input = values_[static_cast<std::size_t>(input)];
        continue;
      }
      const auto [found, is_new] = given.try_emplace(input, kNone);
      if (is_new) found->second = add(graph, input);
      input = found->second;
    }
    for (ValueId& output : copy.outputs) {
      ir::Value value = whole.value(output);
      value.keep = false;
      graph.values.push_back(std::move(value));
      const auto number = static_cast<ValueId>(graph.values.size()) - 1;
      values_[static_cast<std::size_t>(output)] = number;
      output = number;
    }
    graph.append(std::move(copy));
  }
  bool reaches = false;
  for (const LoweredGraph::End& end : loss.ends_) {
    if (!moves(end.value)) continue;
    graph.value(values_[static_cast<std::size_t>(end.value)]).keep = true;
    reaches = true;
  }
  if (!reaches) return;
  program_ = std::make_unique<Float64Program>(graph, loss.backend_);
  program_->bind(values_[static_cast<std::size_t>(source)],
                 reinterpret_cast<const std::byte*>(moved_.data()));
  for (const auto& [of, value] : given) program_->bind(value, loss.program_->address(of));
}

// A source that stands for a value of the whole graph.
ValueId LossOfParameter::add(ir::Graph& graph, ValueId value) {
  const ir::Value& known = loss_.ops_.graph.value(value);
  return graph.add_source(ir::Source::bound, static_cast<int>(value), known.type, known.name);
}

LossElements LossOfParameter::elements() {
  program_->run();
  return loss_.elements(*program_, values_);
}

}  // namespace traingraph
