// Emission lowers a recording to ops: it loads and stores parts of storages, and writes each
// operation, or its native kernel, under its predicate.
#include "mps/recording/emission.h"

#include <algorithm>
#include <limits>
#include <set>

#include <traingraph/errors.h>

#include "mps/recording/encodings.h"
#include "mps/recording/image_parts.h"
#include "passes/passes.h"
#include "runtime/threads/interruption.h"

namespace traingraph::mps {

using ir::kNone;
using ir::ValueId;

namespace {

// What values of this type are inside.
DataType computed_in(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBFloat16 ? DataType::kFloat32 : type;
}

// One of two values: 1 and 0, or 0 and 1.
struct Choice {
  ValueId runs = kNone;
  ValueId skips = kNone;
};

// By the bits of one float32: any other than those of 0.
Choice choice_by(ir::Graph& graph, ValueId numbers, std::int64_t element) {
  const ValueId x = ops::reshape(
      graph, ops::apply1(graph, ir::Op::slice, ir::SliceAttributes{0, element, 1}, {numbers}), {});
  const ValueId one = ops::filled(graph, graph.type(x), 1);
  const ValueId nonzero = ops::binary(graph, ir::Scalar::where_nonzero, one, x, 0);
  const ValueId zero = ops::unary(graph, ir::Scalar::affine, nonzero, -1, 1);
  // -0 has a bit, and -inf as its reciprocal.
  const ValueId sign =
      ops::unary(graph, ir::Scalar::sign, ops::unary(graph, ir::Scalar::reciprocal, x));
  const ValueId negative =
      ops::unary(graph, ir::Scalar::relu, ops::unary(graph, ir::Scalar::negate, sign));
  const ValueId runs = ops::binary(graph, ir::Scalar::add, nonzero,
                                   ops::binary(graph, ir::Scalar::mask, negative, zero));
  return {runs, ops::unary(graph, ir::Scalar::affine, runs, -1, 1)};
}

// Each is -inf where it does not apply, and the larger of the two is the other with all its bits.
ValueId chosen(ir::Graph& graph, const Choice& choice, ValueId now, ValueId before) {
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  const DataType type = graph.type(before).data_type;
  const auto where = [&](ValueId value, ValueId applies) {
    return ops::binary(graph, ir::Scalar::where_nonzero, value, ops::cast(graph, applies, type),
                       kLowest);
  };
  return ops::binary(graph, ir::Scalar::maximum, where(ops::cast(graph, now, type), choice.runs),
                     where(before, choice.skips));
}

// The nearest of the values that a normalized format has.
ValueId normalized(ir::Graph& graph, ValueId value, std::int64_t levels) {
  ir::ScalarList list{1, {}, {}};
  const auto most = static_cast<double>(levels);
  const int whole =
      list.add(ir::Scalar::round,
               list.add(ir::Scalar::scale, list.add(ir::Scalar::clip, 0, -1, 0, 1), -1, most));
  list.results = {
      list.add(ir::Scalar::divide, whole, list.add(ir::Scalar::constant, -1, -1, most))};
  return ops::elementwise(graph, std::move(list), {value})[0];
}

}  // namespace

Emission::Emission(const Recording& recording, const Backend& backend)
    : graph(lowering.graph), recording_(recording), backend_(backend) {}

// Storages fall into the parts that the encodings tell apart.
void Emission::partition() {
  std::vector<std::set<std::int64_t>> cuts(recording_.storages().size());
  for_encodings(recording_.words(), [&](std::size_t, const Encoding& encoding) {
    const auto add = [&cuts](const std::vector<Range>& ranges) {
      for (const Range& range : ranges) {
        cuts[range.storage].insert(static_cast<std::int64_t>(range.first));
        cuts[range.storage].insert(static_cast<std::int64_t>(range.first + range.count));
      }
    };
    for (const std::vector<Range>& ranges : encoding.operands) add(ranges);
    add(encoding.predicate);
  });
  slices_.resize(cuts.size());
  layout_group_.resize(cuts.size());
  for (std::size_t s = 0; s < cuts.size(); ++s) layout_group_[s] = s;
  for (std::size_t s = 0; s < cuts.size(); ++s) {
    for (auto it = cuts[s].begin(); std::next(it) != cuts[s].end(); ++it) {
      StorageSlice slice;
      slice.storage = s;
      slice.first = *it;
      slice.count = *std::next(it) - *it;
      slices_[s].push_back(slice);
    }
  }
}

template <class F>
void Emission::for_slices(const Range& range, const F& f) {
  for (StorageSlice& slice : slices_[range.storage]) {
    const auto first = static_cast<std::uint64_t>(slice.first);
    if (first >= range.first && first < range.first + range.count) f(slice);
  }
}

// Those of one shape among the operands join the groups of each other.
void Emission::align(const std::vector<std::vector<Range>>& operands) {
  for (std::size_t a = 0; a < operands.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (operands[a].size() != 1 || operands[b].size() != 1) continue;
      const std::size_t first = operands[a][0].storage, second = operands[b][0].storage;
      if (recording_.storages()[first]->shape != recording_.storages()[second]->shape) continue;
      layout_group_[group_of(first)] = group_of(second);
    }
  }
}

std::size_t Emission::group_of(std::size_t storage) {
  for (; layout_group_[storage] != storage; storage = layout_group_[storage]) {
    layout_group_[storage] =
        layout_group_[layout_group_[storage]];  // half of the way for the next question
  }
  return storage;
}

ValueId Emission::fresh_source(StorageSlice& slice) {
  const Storage& storage = *recording_.storages()[slice.storage];
  ir::Type type = storage.type();
  if (storage.divisible) type.shape[0] = slice.count;
  const auto slot = static_cast<int>(lowering.parameters.size());
  lowering.parameters.push_back(nullptr);  // counts the slots
  return graph.add_source(ir::Source::parameter, slot, std::move(type),
                          "storage " + std::to_string(slice.storage));
}

ValueId Emission::load(const std::vector<Range>& ranges) {
  std::vector<ValueId> parts;
  for (const Range& range : ranges) {
    for_slices(range, [&](StorageSlice& slice) {
      const Storage& storage = *recording_.storages()[slice.storage];
      if (slice.current == kNone && storage.transient()) {
        ir::Type type = storage.type();
        if (storage.divisible) type.shape[0] = slice.count;
        slice.current = ops::filled(graph, type, 0);
      }
      if (slice.current == kNone) slice.source = slice.current = fresh_source(slice);
      parts.push_back(slice.current);
    });
  }
  if (parts.empty()) return kNone;
  ValueId value = parts[0];
  if (parts.size() > 1) {
    value = ops::apply1(graph, ir::Op::concatenate, ir::AxisAttributes{0}, std::move(parts));
  }
  const DataType type = graph.type(value).data_type;
  return is_floating_point(type) ? ops::cast(graph, value, computed_in(type)) : value;
}

void Emission::store(const std::vector<Range>& ranges, ValueId value) {
  std::int64_t row = 0;
  for (const Range& range : ranges) {
    for_slices(range, [&](StorageSlice& slice) {
      const Storage& storage = *recording_.storages()[slice.storage];
      ValueId part = value;
      if (storage.divisible && graph.type(value).shape[0] != slice.count) {
        part = ops::apply1(graph, ir::Op::slice, ir::SliceAttributes{0, row, slice.count}, {value});
      }
      row += slice.count;
      if (storage.levels != 0) part = normalized(graph, part, storage.levels);
      slice.current = ops::cast(graph, part, storage.data_type);
      slice.written = true;
    });
  }
}

void Emission::set(std::size_t result, ValueId value) {
  if (graph.type(value).shape != results[result].shape) {
    if (graph.type(value).elements() != results[result].elements()) {
      fail("expected a result " + to_string(graph.type(value).shape) + " but got a destination " +
           to_string(results[result].shape));
    }
    value = ops::reshape(graph, value, results[result].shape);
  }
  // Bytes from before the run may be replaced later in it: what is handed on is a copy.
  if (graph.value(value).source != ir::Source::node) {
    value = ops::unary(graph, ir::Scalar::identity, value);
  }
  values_[result] = value;
}

ValueId Emission::number(std::size_t index, DataType type) {
  ValueId& value = number_values_[first_number_ + index];
  if (value == kNone) {
    value = graph.add_source(ir::Source::bound, static_cast<int>(first_number_ + index),
                             ir::Type{type, {}, false}, "number");
    wide_[first_number_ + index] = element_bytes(type) == 8;
  }
  return value;
}

std::vector<ValueId> Emission::gradients(ValueId value, ValueId gradient,
                                         const std::vector<ValueId>& by) {
  const ir::Phase phase = graph.phase;
  const int layer = graph.layer;
  std::vector<ValueId> result;
  for (const ValueId one : by) {  // one at a time: by all, one would see what another is made of
    result.push_back(passes::autodiff(graph, {{value, gradient}}, {one}, {}, first_node_)[0]);
  }
  graph.phase = phase;
  graph.layer = layer;
  for (std::size_t k = 0; k < by.size(); ++k) {
    if (result[k] == kNone) result[k] = ops::filled(graph, graph.type(by[k]), 0);
  }
  return result;
}

void Emission::hold_apart() {
  for (ValueId& input : inputs) {
    if (input == kNone) continue;
    const ValueId copy = ops::unary(graph, ir::Scalar::identity, input);
    held_.emplace(copy, input);
    input = copy;
  }
}

void Emission::let_go() {
  for (auto n = static_cast<std::size_t>(first_node_); n < graph.nodes.size() && !held_.empty();
       ++n) {
    for (ValueId& input : graph.nodes[n].inputs) {
      const auto found = held_.find(input);
      if (found != held_.end()) input = found->second;
    }
  }
  held_.clear();
}

ValueId Emission::layer(const Layer& layer, std::vector<ValueId> sources) {
  const int before = graph.layer;
  Emitter emitter(lowering, layer, std::move(sources));
  graph.layer = before;
  layer.emit(emitter);
  return emitter.results[0];
}

void Emission::fail(const std::string& text) const {
  throw ShapeError("[" + operation_->subject + "] " + text);
}

bool Emission::emit_named() {
  if (!operation_->named) return false;
  // An op has no gaps among its inputs, so only the last ones can be missing.
  std::vector<ValueId> given = inputs;
  while (!given.empty() && given.back() == kNone) given.pop_back();
  if (std::ranges::count(given, kNone) != 0) return false;
  ir::NamedKernelAttributes attributes = *operation_->named;
  const auto add = [&attributes](std::string name, std::uint64_t number) {
    attributes.numbers.emplace_back(std::move(name), static_cast<double>(number));
  };
  for (std::size_t k = 0; k < constants.size(); ++k) {
    add("constant." + std::to_string(k), constants[k]);
  }
  if (number_count_ != 0) add("running_numbers", number_count_);
  if (given.size() != inputs.size()) add("missing_operands", inputs.size() - given.size());
  std::vector<std::size_t> written;
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (!operation_->writes(k)) continue;
    written.push_back(k);
    attributes.results.push_back(results[k]);
  }
  const std::size_t values_before = graph.values.size();
  const ir::NodeId id = ops::apply(graph, ir::Op::named_kernel, attributes, std::move(given));
  if (!backend_.supports(graph, graph.node(id)).yes) {
    graph.nodes.pop_back();
    graph.values.resize(values_before);
    return false;
  }
  for (std::size_t k = 0; k < number_count_; ++k) {
    graph.node(id).inputs.push_back(number(k, operation_->number_type()));
  }
  for (std::size_t k = 0; k < written.size(); ++k) set(written[k], graph.node(id).outputs[k]);
  return true;
}

// What updates bytes that others read belongs to the update phase, and so does what reads those;
// the gradients that are encoded between updates do not.
void Emission::set_phase() {
  const auto first_node = static_cast<std::size_t>(first_node_);
  bool late = operation_->updates();
  for (std::size_t n = first_node; n < graph.nodes.size(); ++n) {
    for (ValueId input : graph.nodes[n].inputs) {
      const ir::NodeId producer = graph.value(input).producer;
      if (producer == kNone || static_cast<std::size_t>(producer) >= first_node) continue;
      late = late || graph.node(producer).phase == ir::Phase::update;
    }
  }
  for (std::size_t n = first_node; n < graph.nodes.size(); ++n) {
    graph.nodes[n].phase = late ? ir::Phase::update : ir::Phase::forward;
  }
}

// Every encoding in order.
void Emission::write() {
  number_values_.assign(recording_.numbers().size(), kNone);
  wide_.assign(recording_.numbers().size(), false);
  for_encodings(recording_.words(), [&](std::size_t k, const Encoding& encoding) {
    check_compilation();
    operation_ = recording_.operations()[k].get();
    if (operation_->aligns()) align(encoding.operands);
    graph.layers.push_back("'" + operation_->subject + "'");
    graph.layer = static_cast<int>(graph.layers.size()) - 1;
    first_node_ = static_cast<ir::NodeId>(graph.nodes.size());
    const auto part_of = [&](std::size_t operand) {
      const auto found = encoding.parts.find(operand);
      return found == encoding.parts.end() ? nullptr : &found->second;
    };
    inputs.clear();
    results.clear();
    constants = encoding.constants;
    number_count_ = encoding.number_count;
    for (std::size_t n = 0; n < encoding.input_count; ++n) {
      const ImagePart* part = part_of(n);
      const ValueId whole = load(encoding.operands[n]);
      inputs.push_back(part == nullptr ? whole : read_part(graph, whole, *part));
    }
    const std::size_t result_count = encoding.operands.size() - encoding.input_count;
    for (std::size_t n = 0; n < result_count; ++n) {
      const std::vector<Range>& list = encoding.operands[encoding.input_count + n];
      const Storage& storage = *recording_.storages()[list[0].storage];
      ir::Type type = storage.type();
      type.data_type = computed_in(type.data_type);
      if (storage.divisible) {
        type.shape[0] = 0;
        for (const Range& range : list) type.shape[0] += static_cast<std::int64_t>(range.count);
      }
      if (const ImagePart* part = part_of(encoding.input_count + n)) {
        type.shape = {type.shape[0], part->extent[0], part->size[0], part->size[1]};
      }
      results.push_back(std::move(type));
    }
    values_.assign(result_count, kNone);
    const bool conditional = !encoding.predicate.empty();
    const Choice choice =
        conditional ? choice_by(graph, load(encoding.predicate), encoding.predicate_element)
                    : Choice{};
    if (!emit_named()) operation_->emit(*this);
    let_go();
    for (std::size_t n = 0; n < result_count; ++n) {
      if (values_[n] == kNone) continue;
      const std::vector<Range>& ranges = encoding.operands[encoding.input_count + n];
      if (const ImagePart* part = part_of(encoding.input_count + n)) {
        values_[n] = write_part(graph, load(ranges), values_[n], *part);
      }
      if (conditional) values_[n] = chosen(graph, choice, values_[n], load(ranges));
      store(ranges, values_[n]);
    }
    set_phase();
    first_number_ += number_count_;
  });
  operation_ = nullptr;
}

// What outlives the run replaces the bytes it was read from: by the op that updates it, or by a
// copy.
void Emission::write_results() {
  graph.phase = ir::Phase::update;
  graph.layer = kNone;
  for (std::vector<StorageSlice>& slices : slices_) {
    for (StorageSlice& slice : slices) {
      if (!slice.written || recording_.storages()[slice.storage]->transient()) continue;
      if (slice.source == kNone) slice.source = fresh_source(slice);
      const ir::Value& value = graph.value(slice.current);
      const bool own = value.source == ir::Source::node && value.writes == kNone &&
                       graph.node(value.producer).phase == ir::Phase::update &&
                       graph.node(value.producer).op == ir::Op::elementwise;
      if (!own) slice.current = ops::unary(graph, ir::Scalar::identity, slice.current);
      graph.value(slice.current).writes = slice.source;
    }
  }
}

}  // namespace traingraph::mps
