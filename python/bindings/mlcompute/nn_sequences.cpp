// Blocks of traingraph::nn over sequences and indices, and activations by name.
#include "classes/signature.h"
#include "convert/convert.h"
#include "mlcompute/nn_values.h"

namespace traingraph::python {
namespace {

using nn::Block;
using Count = std::int64_t;

Block make_lstm(const Arguments& given) {
  nn::LstmOptions options;
  options.layers = given.get<Count>("layers");
  options.bidirectional = given.get<bool>("bidirectional");
  options.dropout = given.get<float>("dropout");
  options.returns_sequences = given.get<bool>("returns_sequences");
  const auto hidden = given.get<Count>("hidden");
  return given.form() == 0 ? nn::lstm(hidden, options)
                           : nn::lstm(given.get<Count>("inputs"), hidden, options);
}

Block make_attention(const Arguments& given) {
  const nn::AttentionOptions options{given.get<float>("dropout"), given.get<bool>("bias"),
                                     given.get<bool>("causal")};
  const auto heads = given.get<Count>("heads");
  return given.form() == 0 ? nn::attention(heads, options)
                           : nn::attention(given.get<Count>("inputs"), heads, options);
}

}  // namespace

void bind_nn_sequences(py::module_& module) {
  const std::string lstm =
      "hidden: int, *, layers: int = 1, bidirectional: bool = False, dropout: float = 0.0, "
      "returns_sequences: bool = False";
  def_function(module, "lstm", "Block", {lstm, "inputs: int, " + lstm},
               "MLCLSTMLayer with Glorot-uniform weights and biases 0, of forget gates 1. Shapes: "
               "(N, T, C) to the last step (N, features), or to (N, T, features) with "
               "returns_sequences. Called with int32 lengths (N), which descend, it reads no step "
               "behind them. Errors: ValueError.",
               make_lstm);
  def_function(module, "gru", "Block", {"hidden: int, *, returns_sequences: bool = False"},
               "A gated recurrent unit made of layers for each step, with Glorot-uniform weights "
               "and biases 0; the candidate is reset after its product, as in PyTorch and Keras. "
               "Shapes: (N, T, C) to the last step (N, hidden), or to (N, T, hidden) with "
               "returns_sequences. Errors: ValueError.",
               [](const Arguments& given) {
                 return nn::gru(given.get<Count>("hidden"), {given.get<bool>("returns_sequences")});
               });
  def_getter(module, "positional_embedding", "Block",
             "Adds to each step a row of a table of normal numbers of deviation 0.05, which is "
             "trained. Shapes: (N, T, C) to the same.",
             &nn::positional_embedding);
  def_function(module, "embedding", "Block",
               {"count: int, dimension: int, *, padding_index: int | None = None, data_type: "
                "MLCDataType | DTypeLike = MLCDataType.FLOAT32"},
               "MLCEmbeddingLayer over a table of normal numbers. Shapes: indices (…) to "
               "(…, dimension). Types: the table's float32 or float64 is that of blocks behind it. "
               "Errors: ValueError.",
               [](const Arguments& given) {
                 return nn::embedding(given.get<Count>("count"), given.get<Count>("dimension"),
                                      given.optional<Count>("padding_index"),
                                      given.get<DataType>("data_type"));
               });
  const std::string attention =
      "heads: int, *, dropout: float = 0.0, bias: bool = True, causal: bool = False";
  def_function(module, "attention", "Block", {attention, "inputs: int, " + attention},
               "MLCMultiheadAttentionLayer whose source is query, key and value; causal, a step "
               "reads itself and those before it. Called with int32 lengths (N) it reads no step "
               "behind them and gives zeros there. Shapes: (N, T, C) to the same. Errors: "
               "ValueError.",
               make_attention);
  def_function(module, "permute", "Block", {"axes: Sequence[int]"},
               "MLCTransposeLayer to this order of a sample's axes; 1 is the first one behind "
               "the batch. Shapes: (N, T, C) to (N, C, T) by (2, 1). Errors: ValueError.",
               [](const Arguments& given) { return nn::permute(given.get<Shape>("axes")); });
  def_function(module, "activation", "Block",
               {"name: str, a: float | None = None, b: float | None = None"},
               "MLCActivationLayer by name, with the descriptor's a and b; or MLCSoftmaxLayer, "
               "'softmax' and 'log_softmax', over the last axis, of (N, C, H, W) over C. Shapes: "
               "any to the same. Errors: ValueError that lists the names.",
               [](const Arguments& given) {
                 return nn::activation(given.get<std::string>("name"), given.optional<float>("a"),
                                       given.optional<float>("b"));
               });
}

}  // namespace traingraph::python
