// The multi-head attention layer: projections of query, key and value, the op attention, and the
// output projection.
#include <traingraph/attention.h>

#include <array>
#include <cmath>

#include <traingraph/class_description.h>
#include <traingraph/errors.h>

#include "layers/checks.h"
#include "layers/sequences.h"

namespace traingraph {
namespace {

using ir::ValueId;
using Tensors = std::vector<TensorPtr>;

// Sources, and what their projections are called in messages and checkpoints.
constexpr std::array kProjections = {"query", "key", "value", "output"};
constexpr std::size_t kOutput = 3;

[[noreturn]] void refuse_attention(const std::string& text) {
  throw InvalidArgument("[MultiheadAttention] " + text);
}

// What projection i reads.
std::int64_t read_dimension(const MultiheadAttentionDescriptor& d, std::size_t i) {
  return i == 1 ? d.key_dimension : i == 2 ? d.value_dimension : d.model_dimension;
}

Tensors own_weights(const MultiheadAttentionDescriptor& d) {
  d.check();
  Tensors made;
  for (std::size_t i = 0; i <= kOutput; ++i) {
    const std::int64_t out = d.model_dimension, in = read_dimension(d, i);
    made.push_back(Tensor::random(TensorDescriptor({out, in}),
                                  RandomInitializerType::kGlorotUniform, in, out));
  }
  return made;
}

Tensors own_biases(const MultiheadAttentionDescriptor& d) {
  Tensors made;
  for (std::size_t i = 0; i <= kOutput && d.has_biases; ++i) {
    made.push_back(Tensor::filled(TensorDescriptor({d.model_dimension}), 0));
  }
  return made;
}

Tensors own_attention_biases(const MultiheadAttentionDescriptor& d) {
  Tensors made;
  for (int i = 0; i < 2 && d.has_attention_biases; ++i) {
    made.push_back(Tensor::random(TensorDescriptor({1, 1, d.model_dimension}),
                                  RandomInitializerType::kGlorotUniform, d.model_dimension,
                                  d.model_dimension));
  }
  return made;
}

std::vector<TensorParameter> parameters_of(Tensors tensors, const std::string& what,
                                           std::size_t count) {
  if (tensors.size() != count) {
    refuse_attention("expected " + std::to_string(count) + " " + what + " but got " +
                     std::to_string(tensors.size()));
  }
  std::vector<TensorParameter> parameters(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (tensors[i] == nullptr) refuse_attention("expected " + what + " but one is null");
    parameters[i].tensor = std::move(tensors[i]);
  }
  return parameters;
}

Tensors tensors_of(const std::vector<TensorParameter>& parameters) {
  Tensors tensors;
  for (const TensorParameter& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

std::vector<TensorParameter*> addresses_of(std::vector<TensorParameter>& parameters) {
  std::vector<TensorParameter*> addresses;
  for (TensorParameter& parameter : parameters) addresses.push_back(&parameter);
  return addresses;
}

// x (N, T, in) → x Wᵀ + b, (N, T, E). Biases may be kNone.
ValueId projected(Emitter& e, ValueId x, ValueId weights, ValueId biases) {
  const ir::Type type = e.graph.type(x);
  const Shape rows = {type.shape[0] * type.shape[1], type.shape[2]};
  const ValueId flat = ops::reshape(e.graph, x, rows, type.batched);
  ValueId y = ops::matmul(e.graph, flat, weights, false, true);
  if (biases != ir::kNone) y = ops::binary(e.graph, ir::Scalar::add, y, biases);
  const std::int64_t out = e.graph.type(weights).shape[0];
  return ops::reshape(e.graph, y, {type.shape[0], type.shape[1], out}, type.batched);
}

// One behind the other, on axis 0.
ValueId three_joined(Emitter& e, const ValueId* parts) {
  return ops::apply1(e.graph, ir::Op::concatenate, ir::AxisAttributes{0}, {parts, parts + 3});
}

// x (N, S, E) and behind it one row per sample: a bias, zeros.
ValueId with_rows(Emitter& e, ValueId x, const TensorPtr& bias, bool adds_zeros) {
  ir::Type row = e.graph.type(x);
  row.shape[1] = 1;
  std::vector<ValueId> parts = {x};
  if (bias != nullptr) {
    // Its axis 0 is the batch, of one sample too.
    ir::ElementwiseAttributes broadcast{
        {1, {{ir::Scalar::identity, 0, -1, 0, 0}}, {1}}, row.shape, row.batched, {}};
    const ValueId own = e.parameter(bias, {1, 1, row.shape[2]});
    parts.push_back(ops::apply1(e.graph, ir::Op::elementwise, std::move(broadcast), {own}));
  }
  if (adds_zeros) parts.push_back(ops::filled(e.graph, row, 0));
  if (parts.size() == 1) return x;
  return ops::apply1(e.graph, ir::Op::concatenate, ir::AxisAttributes{1}, std::move(parts));
}

void expect_shape(const Emitter& e, std::size_t i, const std::string& what, const Shape& expected) {
  const Shape shape = e.type(i).shape;
  if (shape != expected) {
    e.fail_shape("expected " + what + " " + to_string(expected) + " but got " + to_string(shape));
  }
}

// Which sources are masks, or lengths; 0: none.
struct Masks {
  std::size_t of_keys = 0, lengths = 0, of_queries = 0;
};

Masks check_sources(const Emitter& e, const MultiheadAttentionDescriptor& d) {
  e.expect_sources(3, 5);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string what = std::string("a ") + kProjections[i];
    expect_floating(e, i, what);
    const Shape shape = e.type(i).shape;
    if (shape.size() != 3 || shape[2] != read_dimension(d, i)) {
      e.fail_shape("expected " + what + " (N, " + (i == 0 ? "L" : "S") + ", " +
                   std::to_string(read_dimension(d, i)) + ") but got " + to_string(shape));
    }
  }
  const Shape query = e.type(0).shape;
  const std::int64_t keys = e.type(1).shape[1];
  expect_shape(e, 1, "a key", {query[0], keys, d.key_dimension});
  expect_shape(e, 2, "a value", {query[0], keys, d.value_dimension});
  Masks masks;
  const std::size_t count = e.sources.size();
  if (count > 3) {
    const ir::Type fourth = e.type(3);
    const bool has_lengths = fourth.data_type == DataType::kInt32 && fourth.rank() != 3;
    (fourth.rank() == 3 ? masks.of_queries : has_lengths ? masks.lengths : masks.of_keys) = 3;
  }
  if (count == 5) {
    if (masks.of_queries != 0) {
      e.fail_shape("expected a key mask (N, S) before the attention mask but got " +
                   to_string(e.type(3).shape));
    }
    masks.of_queries = 4;
  }
  if (masks.of_keys != 0) {
    const DataType type = e.type(masks.of_keys).data_type;
    if (type != DataType::kBoolean) {
      throw DataTypeError(layer_message(
          e,
          std::string("expected a key mask of bool, or lengths of int32, but got ") + name(type)));
    }
    expect_shape(e, masks.of_keys, "a key mask", {query[0], keys});
  }
  if (masks.of_queries != 0) {
    const ir::Type mask = e.type(masks.of_queries);
    if (mask.data_type != DataType::kBoolean) {
      expect_floating(e, masks.of_queries, "an attention mask");
    }
    const bool shared = mask.rank() == 3 && mask.shape[0] == 1;
    expect_shape(e, masks.of_queries,
                 shared ? "an attention mask" : "an attention mask with 1 row or",
                 {shared ? 1 : query[0] * d.head_count, query[1], keys});
  }
  return masks;
}

// Whether one product of all weights serves queries, keys and values of one tensor. It needs these
// side by side, and a step changes them, so each step copies them: too much work for few rows.
bool joins_projections(const Emitter& e, const MultiheadAttentionDescriptor& d) {
  const Shape shape = e.type(0).shape;
  return e.training() && e.lowering.joins_projections && shape[0] * shape[1] >= d.model_dimension;
}

// What lengths of the keys make of sources and result. Where one tensor is query and key, queries
// end too.
class Endings {
 public:
  // `lengths` is a source; 0: none.
  Endings(Emitter& e, std::size_t lengths) : e_(e), is_self_(e.sources[0] == e.sources[1]) {
    for (std::size_t i = 0; i < 3; ++i) read_[i] = e.sources[i];
    if (lengths == 0) return;
    const ir::Type key = e.type(1);
    Sequences sequences{false, key.shape[0], key.shape[1]};
    sequences.lengths = given_lengths(e, lengths, sequences.sequences);
    behind_ = padding(e, sequences, key.data_type);
    for (std::size_t i = is_self_ ? 0 : 1; i < 3; ++i) {
      const bool is_same = i > 0 && e.sources[i] == e.sources[i - 1];
      read_[i] = is_same ? read_[i - 1] : zero_behind(read_[i]);
    }
  }

  // Source `i`: as 0 * NaN is NaN, no mask alone keeps what is behind an end out.
  ValueId read(std::size_t i) const { return read_.at(i); }
  // (N, S)
  ValueId key_mask() const {
    const ir::Type type = e_.graph.type(behind_);
    return ops::reshape(e_.graph, behind_, {type.shape[0], type.shape[1]}, type.batched);
  }
  ValueId result(ValueId y) const { return behind_ != ir::kNone && is_self_ ? zero_behind(y) : y; }

 private:
  ValueId zero_behind(ValueId x) const {
    const ValueId zero = ops::filled(e_.graph, {e_.graph.type(x).data_type, {1, 1, 1}, false}, 0);
    return ops::apply1(e_.graph, ir::Op::select, ir::SelectAttributes{}, {behind_, zero, x});
  }

  Emitter& e_;
  bool is_self_;
  ValueId behind_ = ir::kNone;  // (N, S, 1)
  std::array<ValueId, 3> read_{};
};

}  // namespace

MultiheadAttentionDescriptor::MultiheadAttentionDescriptor(std::int64_t model, std::int64_t heads)
    : model_dimension(model), key_dimension(model), value_dimension(model), head_count(heads) {}

void MultiheadAttentionDescriptor::check() const {
  check_ranges(class_description(), this, "MultiheadAttention");
  if (model_dimension % head_count != 0) {
    refuse_attention("expected a model dimension divisible by " + std::to_string(head_count) +
                     " heads but got " + std::to_string(model_dimension));
  }
  if (causal && (has_attention_biases || adds_zero_attention)) {
    refuse_attention(
        std::string("expected no rows appended to keys of causal attention, as they ") +
        "have no position, but got " +
        (has_attention_biases ? "has_attention_biases" : "adds_zero_attention") +
        "; without causal, an attention mask (1, L, S) masks later keys beside them");
  }
}

MultiheadAttention::MultiheadAttention(MultiheadAttentionDescriptor descriptor, Tensors weights,
                                       Tensors biases, Tensors attention_biases)
    : Layer("MultiheadAttention"), descriptor_(descriptor) {
  descriptor.check();
  const auto expect_wanted = [](bool has, const Tensors& given, const char* what) {
    if (has || given.empty()) return;
    refuse_attention("expected no " + std::string(what) + ", as the descriptor has none, but got " +
                     std::to_string(given.size()));
  };
  expect_wanted(descriptor.has_biases, biases, "biases");
  expect_wanted(descriptor.has_attention_biases, attention_biases, "attention biases");
  weights_ = parameters_of(std::move(weights), "weights, of query, key, value and output", 4);
  if (!biases.empty()) {
    biases_ = parameters_of(std::move(biases), "biases, of query, key, value and output", 4);
  }
  if (!attention_biases.empty()) {
    attention_biases_ =
        parameters_of(std::move(attention_biases), "attention biases, of key and value", 2);
  }
  const std::int64_t model = descriptor.model_dimension;
  for (std::size_t i = 0; i <= kOutput; ++i) {
    const std::string of = kProjections[i];
    expect_elements(*this, of + " weights", weights_[i].tensor,
                    {model, read_dimension(descriptor, i)});
    if (!biases_.empty()) expect_elements(*this, of + " biases", biases_[i].tensor, {model});
  }
  for (std::size_t i = 0; i < attention_biases_.size(); ++i) {
    expect_elements(*this, std::string(kProjections[i + 1]) + " attention biases",
                    attention_biases_[i].tensor, {model});
  }
}

MultiheadAttention::MultiheadAttention(MultiheadAttentionDescriptor d)
    : MultiheadAttention(d, own_weights(d), own_biases(d), own_attention_biases(d)) {}

std::vector<TensorPtr> MultiheadAttention::weights() const { return tensors_of(weights_); }
std::vector<TensorPtr> MultiheadAttention::biases() const { return tensors_of(biases_); }
std::vector<TensorPtr> MultiheadAttention::attention_biases() const {
  return tensors_of(attention_biases_);
}
std::vector<TensorParameter*> MultiheadAttention::weights_parameters() {
  return addresses_of(weights_);
}
std::vector<TensorParameter*> MultiheadAttention::biases_parameters() {
  return addresses_of(biases_);
}

std::vector<TensorParameter*> MultiheadAttention::parameters() {
  std::vector<TensorParameter*> all;
  for (auto* some : {&weights_, &biases_, &attention_biases_}) {
    for (TensorParameter& parameter : *some) all.push_back(&parameter);
  }
  return all;
}

std::vector<std::pair<std::string, TensorPtr>> MultiheadAttention::named_parameters() const {
  std::vector<std::pair<std::string, TensorPtr>> named;
  const auto add = [&](const std::string& property, const std::vector<TensorParameter>& some,
                       std::size_t first) {
    for (std::size_t i = 0; i < some.size(); ++i) {
      named.emplace_back(property + "." + kProjections.at(first + i), some[i].tensor);
    }
  };
  add("weights", weights_, 0);
  add("biases", biases_, 0);
  add("attention_biases", attention_biases_, 1);
  return named;
}

std::string MultiheadAttention::description() const {
  return "MultiheadAttention " + std::to_string(descriptor_.model_dimension) + ", " +
         std::to_string(descriptor_.head_count) +
         (descriptor_.head_count == 1 ? " head" : " heads") +
         (descriptor_.causal ? ", causal" : "");
}

void MultiheadAttention::emit(Emitter& e) const {
  const MultiheadAttentionDescriptor& d = descriptor_;
  const Masks masks = check_sources(e, d);
  std::array<ValueId, kProjections.size()> weights{}, biases{};
  for (std::size_t i = 0; i <= kOutput; ++i) {
    weights.at(i) = e.parameter(weights_[i].tensor, {d.model_dimension, read_dimension(d, i)});
    biases.at(i) =
        biases_.empty() ? ir::kNone : e.parameter(biases_[i].tensor, {d.model_dimension});
  }
  const Endings endings(e, masks.lengths);
  ir::AttentionAttributes attributes;
  attributes.joined = endings.read(0) == endings.read(1) && endings.read(0) == endings.read(2) &&
                      attention_biases_.empty() && !d.adds_zero_attention &&
                      joins_projections(e, d);
  std::vector<ValueId> inputs;
  if (attributes.joined) {
    const ValueId all = three_joined(e, weights.data());
    const ValueId added = biases_.empty() ? ir::kNone : three_joined(e, biases.data());
    inputs.push_back(projected(e, endings.read(0), all, added));
  } else {
    for (std::size_t i = 0; i < 3; ++i) {
      ValueId x = projected(e, endings.read(i), weights.at(i), biases.at(i));
      if (i > 0) {
        x = with_rows(e, x, attention_biases_.empty() ? nullptr : attention_biases_[i - 1].tensor,
                      d.adds_zero_attention);
      }
      inputs.push_back(x);
    }
  }
  attributes.heads = d.head_count;
  attributes.scale = 1 / std::sqrt(static_cast<double>(d.head_dimension()));
  attributes.has_key_mask = masks.of_keys != 0 || masks.lengths != 0;
  attributes.has_mask = masks.of_queries != 0;
  attributes.causal = d.causal;
  if (masks.lengths != 0) inputs.push_back(endings.key_mask());
  for (std::size_t i : {masks.of_keys, masks.of_queries}) {
    if (i != 0) inputs.push_back(e.sources[i]);
  }
  if (e.training() && d.dropout > 0) {
    attributes.rate = static_cast<double>(d.dropout);
    attributes.seed = e.seed(0);
    inputs.push_back(e.lowering.step(ir::StepInput::counter));
    if (e.lowering.in_larger_batch && e.type(0).batched) {
      inputs.push_back(e.lowering.step(ir::StepInput::first_row));
    }
  }
  const ValueId y = ops::apply1(e.graph, ir::Op::attention, attributes, std::move(inputs));
  e.result(endings.result(projected(e, y, weights[kOutput], biases[kOutput])));
}

}  // namespace traingraph
