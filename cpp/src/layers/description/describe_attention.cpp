// Descriptions of the multi-head attention layer and its descriptor: properties, arguments and a
// sample.
#include <optional>

#include <traingraph/attention.h>
#include <traingraph/describe.h>

#include "layers/description/sample.h"

namespace traingraph {
namespace {

using Count = std::int64_t;

constexpr const char* kDropout = "The probability with which a weight of a key vanishes.";
constexpr const char* kBiases = "Whether projections have biases.";
constexpr const char* kAttentionBiases =
    "Whether a row of biases is appended to keys and to values.";
constexpr const char* kZeroAttention = "Whether a row of zeros is appended to keys and to values.";
constexpr const char* kCausal = "Whether key j is masked for query i where j > i.";

// The sizes, and what each form takes behind them.
std::vector<Argument> with_options(std::vector<Argument> sizes) {
  sizes.push_back(argument("dropout", 0.0f, kDropout, &kShareBelowOne));
  sizes.push_back(argument("has_biases", true, kBiases));
  sizes.push_back(argument("has_attention_biases", false, kAttentionBiases));
  sizes.push_back(argument("adds_zero_attention", false, kZeroAttention));
  sizes.push_back(argument("causal", false, kCausal));
  return sizes;
}

MultiheadAttentionDescriptor described(const Given& given) {
  MultiheadAttentionDescriptor d(given.get<Count>("model_dimension"),
                                 given.get<Count>("head_count"));
  d.dropout = given.get<float>("dropout");
  d.has_biases = given.get<bool>("has_biases");
  d.has_attention_biases = given.get<bool>("has_attention_biases");
  d.adds_zero_attention = given.get<bool>("adds_zero_attention");
  d.causal = given.get<bool>("causal");
  return d;
}

}  // namespace

const ClassDescription& MultiheadAttentionDescriptor::class_description() {
  using D = MultiheadAttentionDescriptor;
  const auto model = argument<Count>("model_dimension", "E: elements of a query.", &kOneOrMore);
  const auto heads = argument<Count>("head_count", "Heads; they divide E.", &kOneOrMore);
  const auto key = argument<Count>("key_dimension", "K: elements of a key.", &kOneOrMore);
  const auto value = argument<Count>("value_dimension", "V: elements of a value.", &kOneOrMore);
  static const ClassDescription description =
      Describing<D>("MLCMultiheadAttentionDescriptor", "Sizes of multi-head attention.")
          .property("model_dimension", &D::model_dimension, "E: elements of a query.")
          .in(kOneOrMore)
          .property("key_dimension", &D::key_dimension, "K: elements of a key.")
          .in(kOneOrMore)
          .property("value_dimension", &D::value_dimension, "V: elements of a value.")
          .in(kOneOrMore)
          .property("head_count", &D::head_count, "Heads; they divide E.")
          .in(kOneOrMore)
          .property("dropout", &D::dropout, kDropout)
          .in(kShareBelowOne)
          .property("has_biases", &D::has_biases, kBiases)
          .property("has_attention_biases", &D::has_attention_biases, kAttentionBiases)
          .property("adds_zero_attention", &D::adds_zero_attention, kZeroAttention)
          .property("causal", &D::causal, kCausal)
          .form(with_options({model, key, value, heads}),
                [](const Given& given) {
                  D d = described(given);
                  d.key_dimension = given.get<Count>("key_dimension");
                  d.value_dimension = given.get<Count>("value_dimension");
                  d.check();
                  return d;
                })
          .form(with_options({model, heads}),
                [](const Given& given) {
                  const D d = described(given);
                  d.check();
                  return d;
                })
          .text(
              "Without key and value dimensions both are the model dimension. causal is an "
              "addition to ML Compute. Errors: a number outside its range, heads that do not "
              "divide "
              "the model dimension, and rows appended to keys of causal attention.");
  return description;
}

const ClassDescription& MultiheadAttention::class_description() {
  using Self = MultiheadAttention;
  const auto descriptor = argument<MultiheadAttentionDescriptor>("descriptor", "The sizes.");
  const auto or_none = [](auto list) {
    return list.empty() ? std::nullopt : std::make_optional(std::move(list));
  };
  static const ClassDescription description =
      Describing<Self, Layer>("MLCMultiheadAttentionLayer",
                              "Attention of several heads between projections.")
          .property("descriptor", &Self::descriptor, "The sizes.")
          .property("weights", &Self::weights, "Weights of query, key, value and output.")
          .property(
              "biases", [or_none](const Self& self) { return or_none(self.biases()); },
              "Biases of query, key, value and output, or None.")
          .property(
              "attention_biases",
              [or_none](const Self& self) { return or_none(self.attention_biases()); },
              "The rows appended to keys and values, or None.")
          .property("weights_parameters", &Self::weights_parameters,
                    "The parameters that have the weights.")
          .property(
              "biases_parameters",
              [or_none](Self& self) { return or_none(self.biases_parameters()); },
              "The parameters that have the biases, or None.")
          .form({descriptor,
                 argument<std::vector<TensorPtr>>("weights",
                                                  "Weights of query, key, value and output."),
                 optional_argument<std::vector<TensorPtr>>(
                     "biases", "Biases of the same; None: there are none."),
                 optional_argument<std::vector<TensorPtr>>(
                     "attention_biases",
                     "The rows appended to keys and values; None: there are none.")},
                [](const Given& given) {
                  return std::make_shared<Self>(
                      given.get<MultiheadAttentionDescriptor>("descriptor"),
                      given.get<std::vector<TensorPtr>>("weights"),
                      given.get<std::vector<TensorPtr>>("biases"),
                      given.get<std::vector<TensorPtr>>("attention_biases"));
                })
          .form({descriptor},
                [](const Given& given) {
                  return std::make_shared<Self>(
                      given.get<MultiheadAttentionDescriptor>("descriptor"));
                })
          .text(
              "Without weights the layer makes its own: Glorot-uniform with real fans, biases "
              "zero. Shapes: query (N, L, E), key (N, S, K), value (N, S, V), maybe a boolean key "
              "mask (N, S) or int32 lengths (N), maybe an attention mask (1, L, S) or (N * heads, "
              "L, S), whose row n * "
              "heads + h is of sample n and head h; a fourth source of rank 3 is the attention "
              "mask. The result is (N, L, E). Formula: x Wᵀ + b projects query, key and value, of "
              "which head h has the elements h d to (h + 1) d, d = E / heads; of each head "
              "softmax(q kᵀ / sqrt(d) + mask) v; the heads beside each other are projected once "
              "more. True in a mask: that key is ignored. A mask of numbers is added. Causal, an "
              "addition to ML Compute: key j of query i is ignored where j > i. Lengths, an "
              "addition "
              "too, are from 0 to S: keys and values behind are not read and have no gradient; "
              "where "
              "one tensor is query and key, its result is zero there. Rows of "
              "biases and of zeros that are appended to keys and values are never masked. Where "
              "all keys of a query are masked, zeros stand for the values of its heads, and no "
              "gradient "
              "flows. Training drops probabilities and divides the others by 1 - "
              "dropout. Weights have any shape of E * E, E * K, E * V and E * E elements, "
              "row-major by result; biases E elements each. Gradient: of sources, weights, biases "
              "and masks of numbers; reads the projections, the result and one logarithm per query "
              "and head, and no value has L * S elements. Errors: sources, weights and masks that "
              "do not fit; biases that the descriptor has not. Source: Vaswani et al., Attention "
              "is all you need, 2017; Dao et al., FlashAttention, 2022.")
          .sample([](DataType t) {
            MultiheadAttentionDescriptor d(2, 1);
            d.has_attention_biases = true;
            const auto some = [t](std::size_t count, const Shape& shape) {
              std::vector<TensorPtr> made;
              for (std::size_t i = 0; i < count; ++i) made.push_back(sample_parameter(shape, t));
              return made;
            };
            const TensorDescriptor rows({1, 2, 2}, t);
            return LayerSample{
                std::make_shared<Self>(d, some(4, {2, 2}), some(4, {2}), some(2, {2})),
                {rows, rows, rows}};
          });
  return description;
}

}  // namespace traingraph
