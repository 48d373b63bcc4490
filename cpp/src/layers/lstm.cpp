// The LSTM layer: checks of its lists of weights, and stacked layers in one or two directions out
// of lstm_graph.h.
#include <traingraph/lstm.h>

#include <algorithm>

#include <traingraph/class_description.h>
#include <traingraph/errors.h>

#include "layers/activation_list.h"
#include "layers/checks.h"
#include "layers/dropped.h"
#include "layers/lstm_graph.h"

namespace traingraph {
namespace {

using ir::kNone;
using ir::ValueId;

constexpr std::uint64_t kSeedStep = 0xd1b54a32d192ed03ull;
constexpr const char* kGates[] = {"input", "forget", "cell", "output"};

[[noreturn]] void refuse(const std::string& text) { throw InvalidArgument("[LSTM] " + text); }

std::vector<ActivationDescriptor> usual_gates() {
  const ActivationDescriptor sigmoid(ActivationType::kSigmoid);
  return {sigmoid, sigmoid, ActivationDescriptor(ActivationType::kTanh), sigmoid};
}

std::vector<TensorParameter> parameters_of(const std::vector<TensorPtr>& tensors) {
  std::vector<TensorParameter> result(tensors.size());
  for (std::size_t k = 0; k < tensors.size(); ++k) result[k].tensor = tensors[k];
  return result;
}

// "biases of the forget gate in layer 1 backward"
std::string place(const char* what, std::int64_t k, std::int64_t per_layer,
                  const LSTMDescriptor& d) {
  const std::int64_t layer = k / per_layer % d.layer_count, gate = k % per_layer;
  const bool backward = k >= per_layer * d.layer_count;
  return std::string(what) + " of the " + kGates[per_layer == 3 && gate == 2 ? 3 : gate] +
         " gate in layer " + std::to_string(layer) + (backward ? " backward" : "");
}

// Raises unless there are as many tensors as gates, each of H elements, or H times `columns`; of
// those that read the source, later layers read the features of the layer before.
void check_list(const Layer& layer, const LSTMDescriptor& d, const std::vector<TensorPtr>& tensors,
                const char* what, std::int64_t per_layer, bool reads_source, std::int64_t columns) {
  const std::int64_t expected = per_layer * d.layer_count * d.directions();
  if (static_cast<std::int64_t>(tensors.size()) != expected) {
    refuse("expected " + std::to_string(expected) + " " + what + ", " + std::to_string(per_layer) +
           " per layer and direction, but got " + std::to_string(tensors.size()));
  }
  for (std::int64_t k = 0; k < expected; ++k) {
    const TensorPtr& tensor = tensors[static_cast<std::size_t>(k)];
    const std::string name = place(what, k, per_layer, d);
    if (tensor == nullptr) refuse("expected " + name + " but got none");
    Shape shape{d.hidden_size};
    if (columns != 0) {
      const bool first = k / per_layer % d.layer_count == 0;
      shape.push_back(reads_source ? (first ? d.input_size : d.features()) : columns);
    }
    expect_elements(layer, name + ", tensor '" + tensor->label() + "',", tensor, shape);
  }
}

bool is_zero(const Tensor& tensor) {
  const TensorData data = tensor.data().on_host();
  if (data.bytes == nullptr) return false;
  const auto* bytes = static_cast<const std::byte*>(data.bytes);
  const DataType type = tensor.descriptor().data_type;
  for (std::int64_t k = 0; k < element_count(tensor.descriptor().shape); ++k) {
    for (std::size_t b = 0; b < element_bytes(type); ++b) {
      std::byte part = bytes[static_cast<std::size_t>(k) * element_bytes(type) + b];
      // The sign lies in the last byte.
      if (b + 1 == element_bytes(type)) part &= std::byte{0x7f};
      if (part != std::byte{0}) return false;
    }
  }
  return true;
}

std::vector<ir::ScalarList> functions_of(const std::vector<ActivationDescriptor>& gates,
                                         const ActivationDescriptor& output) {
  std::vector<ir::ScalarList> lists, usual;
  for (const ActivationDescriptor& gate : gates) lists.push_back(activation_list(gate));
  for (const ActivationDescriptor& gate : usual_gates()) usual.push_back(activation_list(gate));
  lists.push_back(activation_list(output));
  usual.push_back(activation_list(ActivationDescriptor(ActivationType::kTanh)));
  // Those that backends know by heart.
  return lists == usual ? std::vector<ir::ScalarList>() : lists;
}

ValueId joined(Emitter& e, const std::vector<ValueId>& parts, int axis) {
  if (parts.size() == 1) return parts[0];
  return ops::apply1(e.graph, ir::Op::concatenate, ir::AxisAttributes{axis}, parts);
}

// The sources of a node by what they are.
struct Sources {
  ValueId x = kNone, hidden = kNone, cell = kNone;
  Sequences sequences{};
};

void check_state(const Emitter& e, std::size_t i, const char* what, const LSTMDescriptor& d,
                 std::int64_t sequences) {
  expect_floating(e, i, what);
  const Shape expected{d.layer_count, d.directions(), sequences, d.hidden_size};
  if (e.type(i).shape == expected) return;
  e.fail_shape("expected " + std::string(what) + " (layers, directions, N, H) = " +
               to_string(expected) + " but got " + to_string(e.type(i).shape));
}

// (N) of int32: the last source, or those that the tensor of x has.
ValueId lengths_of(Emitter& e, const Sequences& s) {
  const std::size_t count = e.sources.size();
  if (count == 2 || count == 4) {
    return given_lengths(e, count - 1, s.sequences);
  }
  if (e.sequence_lengths.empty() || e.sequence_lengths[0].empty()) return kNone;
  const Shape& known = e.sequence_lengths[0];
  if (s.time_first) {
    e.fail_argument(
        "expected lengths as a source, for only batch-first tensors have their own, "
        "but got a source with sequence lengths " +
        to_string(known));
  }
  // A batch may have fewer rows than the tensor.
  const ir::Type x = e.type(0);
  const std::int64_t declared = x.batched ? e.lowering.declared_batch : s.sequences;
  const auto count_known = static_cast<std::int64_t>(known.size());
  if (count_known != declared || count_known < s.sequences) {
    e.fail_shape("expected sequence lengths of " + std::to_string(s.sequences) +
                 " sequences in the source but got " + to_string(known));
  }
  if (!std::is_sorted(known.rbegin(), known.rend())) {
    e.fail_argument("expected sequence lengths that descend but got " + to_string(known));
  }
  const std::vector<double> numbers(known.begin(), known.begin() + s.sequences);
  return ops::constant(e.graph, {DataType::kInt32, {s.sequences}, e.type(0).batched}, numbers);
}

Sources sources_of(Emitter& e, const LSTMDescriptor& d) {
  e.expect_sources(1, 4);
  expect_floating(e, 0, "a source");
  const ir::Type type = e.type(0);
  if (type.rank() != 3 || type.shape[2] != d.input_size) {
    e.fail_shape("expected a source " + std::string(d.batch_first ? "(N, T, " : "(T, N, ") +
                 std::to_string(d.input_size) + ") but got " + to_string(type.shape));
  }
  Sources s;
  s.x = e.sources[0];
  s.sequences = {!d.batch_first, type.shape[d.batch_first ? 0 : 1],
                 type.shape[d.batch_first ? 1 : 0]};
  if (e.sources.size() > 2) {
    check_state(e, 1, "a hidden state", d, s.sequences.sequences);
    check_state(e, 2, "a cell state", d, s.sequences.sequences);
    s.hidden = e.sources[1];
    s.cell = e.sources[2];
  }
  s.sequences.lengths = lengths_of(e, s.sequences);
  return s;
}

// (N, H) of states (layers, directions, N, H).
ValueId state_of(Emitter& e, ValueId states, std::int64_t layer, std::int64_t direction) {
  for (int axis : {0, 1}) {
    if (e.graph.type(states).shape[static_cast<std::size_t>(axis)] == 1) continue;
    states = ops::apply1(e.graph, ir::Op::slice,
                         ir::SliceAttributes{axis, axis == 0 ? layer : direction, 1}, {states});
  }
  const Shape& shape = e.graph.type(states).shape;
  return ops::reshape(e.graph, states, {shape[2], shape[3]});
}

}  // namespace

const char* debug_description(LSTMResultMode mode) {
  switch (mode) {
    case LSTMResultMode::kOutput:
      return "Output";
    case LSTMResultMode::kOutputAndStates:
      return "Output and States";
  }
  throw InvalidArgument("[LSTM] expected a result mode from 0 to 1 but got " +
                        std::to_string(static_cast<int>(mode)));
}

void LSTMDescriptor::check(const std::string& subject) const {
  check_ranges(class_description(), this, subject);
  debug_description(result_mode);
}

LSTM::LSTM(LSTMDescriptor d, std::vector<TensorPtr> input_weights,
           std::vector<TensorPtr> hidden_weights, std::vector<TensorPtr> peephole_weights,
           std::vector<TensorPtr> biases, std::vector<ActivationDescriptor> gate_activations,
           ActivationDescriptor output_result_activation)
    : Layer("LSTM"),
      descriptor_(d),
      input_weights_(parameters_of(input_weights)),
      hidden_weights_(parameters_of(hidden_weights)),
      peephole_weights_(parameters_of(peephole_weights)),
      biases_(parameters_of(biases)),
      gate_activations_(std::move(gate_activations)),
      output_activation_(output_result_activation) {
  d.check("LSTM");
  check_list(*this, d, input_weights, "input weights", 4, true, d.input_size);
  check_list(*this, d, hidden_weights, "hidden weights", 4, false, d.hidden_size);
  if (!biases.empty()) {
    if (!d.uses_biases) {
      refuse("expected no biases, which the descriptor does not use, but got " +
             std::to_string(biases.size()));
    }
    check_list(*this, d, biases, "biases", 4, false, 0);
  }
  if (!peephole_weights.empty()) {
    const std::int64_t places = d.layer_count * d.directions();
    const bool has_four = static_cast<std::int64_t>(peephole_weights.size()) == 4 * places;
    check_list(*this, d, peephole_weights, "peephole weights", has_four ? 4 : 3, false, 0);
    for (std::int64_t k = 2; has_four && k < 4 * places; k += 4) {
      if (is_zero(*peephole_weights[static_cast<std::size_t>(k)])) continue;
      refuse("expected zeros as the " + place("peephole weights", k, 4, d) +
             ", which has none, but got other numbers in tensor '" +
             peephole_weights[static_cast<std::size_t>(k)]->label() + "'");
    }
  }
  if (gate_activations_.empty()) gate_activations_ = usual_gates();
  if (gate_activations_.size() != 4) {
    refuse("expected 4 gate activations, of input, forget, cell and output, but got " +
           std::to_string(gate_activations_.size()));
  }
  for (const ActivationDescriptor& gate : gate_activations_) check_activation(gate, "LSTM");
  check_activation(output_activation_, "LSTM");
}

std::vector<std::size_t> LSTM::trained_peepholes() const {
  const auto places = static_cast<std::size_t>(descriptor_.layer_count * descriptor_.directions());
  const bool has_four = peephole_weights_.size() == 4 * places;
  std::vector<std::size_t> trained;
  for (std::size_t k = 0; k < peephole_weights_.size(); ++k) {
    if (!has_four || k % 4 != 2) trained.push_back(k);
  }
  return trained;
}

std::vector<TensorParameter*> LSTM::parameters() {
  std::vector<TensorParameter*> result;
  for (auto* list : {&input_weights_, &hidden_weights_, &biases_}) {
    for (TensorParameter& parameter : *list) result.push_back(&parameter);
  }
  for (std::size_t k : trained_peepholes()) result.push_back(&peephole_weights_[k]);
  return result;
}

std::vector<std::pair<std::string, TensorPtr>> LSTM::named_parameters() const {
  std::vector<std::pair<std::string, TensorPtr>> result;
  const auto add = [&](const char* name, const std::vector<TensorParameter>& list, std::size_t k) {
    result.emplace_back(std::string(name) + "." + std::to_string(k), list[k].tensor);
  };
  for (std::size_t k = 0; k < input_weights_.size(); ++k) add("input_weights", input_weights_, k);
  for (std::size_t k = 0; k < hidden_weights_.size(); ++k) {
    add("hidden_weights", hidden_weights_, k);
  }
  for (std::size_t k : trained_peepholes()) add("peephole_weights", peephole_weights_, k);
  for (std::size_t k = 0; k < biases_.size(); ++k) add("biases", biases_, k);
  return result;
}

std::string LSTM::description() const {
  const LSTMDescriptor& d = descriptor_;
  return "LSTM " + std::to_string(d.input_size) + " → " + std::to_string(d.features()) +
         (d.layer_count > 1 ? " layers " + std::to_string(d.layer_count) : "") +
         (d.is_bidirectional ? " bidirectional" : "");
}

// x (N, T, I) [, h and c (layers, directions, N, H)] [, lengths (N)] → (N, T, directions H), or
// (N, 1, directions H) [, h and c].
void LSTM::emit(Emitter& e) const {
  const LSTMDescriptor& d = descriptor_;
  const Sources sources = sources_of(e, d);
  const Sequences& s = sources.sequences;
  const std::vector<ir::ScalarList> functions = functions_of(gate_activations_, output_activation_);
  const std::vector<std::size_t> peepholes = trained_peepholes();
  // Those of the gates of one layer and direction, one below the other.
  const auto stacked = [&](const std::vector<TensorParameter>& list, std::int64_t at,
                           const Shape& each) {
    std::vector<ValueId> parts;
    for (std::int64_t k = 4 * at; k < 4 * at + 4; ++k) {
      parts.push_back(e.parameter(list[static_cast<std::size_t>(k)].tensor, each));
    }
    return joined(e, parts, 0);
  };
  const std::int64_t hidden = d.hidden_size;
  ValueId x = without_padding(e, s, sources.x);
  std::vector<ValueId> last_hidden, last_cell;
  for (std::int64_t layer = 0; layer < d.layer_count; ++layer) {
    std::vector<ValueId> all, hidden_states, cell_states;
    for (std::int64_t direction = 0; direction < d.directions(); ++direction) {
      const std::int64_t at = direction * d.layer_count + layer;
      LSTMWeights weights{};
      weights.input =
          stacked(input_weights_, at, {hidden, layer == 0 ? d.input_size : d.features()});
      weights.hidden = stacked(hidden_weights_, at, {hidden, hidden});
      if (!biases_.empty()) weights.biases = stacked(biases_, at, {hidden});
      if (!peepholes.empty()) {
        std::vector<ValueId> parts;
        for (std::size_t k = 0; k < 3; ++k) {
          const std::size_t own = peepholes[3 * static_cast<std::size_t>(at) + k];
          parts.push_back(e.parameter(peephole_weights_[own].tensor, {1, hidden}));
        }
        weights.peepholes = joined(e, parts, 0);
      }
      std::vector<ValueId> states;
      if (sources.hidden != kNone) {
        states = {state_of(e, sources.hidden, layer, direction),
                  state_of(e, sources.cell, layer, direction)};
      }
      const LSTMResults made = lstm_direction(e, s, x, weights, states, functions, direction == 1);
      all.push_back(made.all);
      if (d.result_mode == LSTMResultMode::kOutput) continue;
      hidden_states.push_back(ops::reshape(e.graph, made.hidden, {1, 1, s.sequences, hidden}));
      cell_states.push_back(ops::reshape(e.graph, made.cell, {1, 1, s.sequences, hidden}));
    }
    const bool is_last = layer + 1 == d.layer_count;
    if (is_last && !d.returns_sequences) {
      for (ValueId& y : all) y = last_steps(e, s, y);
    }
    x = joined(e, all, 2);
    if (!is_last && e.training() && d.dropout != 0) {
      // Every pair of layers drops others.
      const std::uint64_t seed = e.seed(0) + static_cast<std::uint64_t>(layer + 1) * kSeedStep;
      x = dropped(e, x, static_cast<double>(d.dropout), seed);
    }
    if (d.result_mode == LSTMResultMode::kOutput) continue;
    last_hidden.push_back(joined(e, hidden_states, 1));
    last_cell.push_back(joined(e, cell_states, 1));
  }
  e.result(x);
  if (d.returns_sequences && e.sources.size() % 2 == 1 && !e.sequence_lengths.empty()) {
    e.result_lengths = e.sequence_lengths[0];
  }
  if (d.result_mode == LSTMResultMode::kOutput) return;
  e.result(joined(e, last_hidden, 0));
  e.result(joined(e, last_cell, 0));
}

}  // namespace traingraph
