// Blocks over sequences (N, T, C) and indices.
#include <traingraph/attention.h>
#include <traingraph/embedding.h>
#include <traingraph/lstm.h>

#include "nn/layer_block.h"

namespace traingraph::nn {
namespace {

// (N, T, C) of these channels, where they are given.
std::int64_t channels_of(const std::string& text, const std::optional<std::int64_t>& inputs,
                         const TensorPtr& x) {
  const Shape& shape = x->descriptor().shape;
  if (shape.size() != 3 || inputs.value_or(shape[2]) != shape[2]) {
    refuse_source(text, "(N, T, " + (inputs ? std::to_string(*inputs) : "C") + ")", x);
  }
  return shape[2];
}

LayerPtr make_lstm(const LSTMDescriptor& d) {
  std::vector<TensorPtr> input_weights, hidden_weights, biases;
  const auto drawn = [&d](std::int64_t columns) {
    return Tensor::random(TensorDescriptor({d.hidden_size, columns}),
                          RandomInitializerType::kGlorotUniform, columns, d.hidden_size);
  };
  constexpr std::int64_t kGates = 4, kForget = 1;
  for (std::int64_t k = 0; k < kGates * d.layer_count * d.directions(); ++k) {
    const bool is_first = k / kGates % d.layer_count == 0;
    input_weights.push_back(drawn(is_first ? d.input_size : d.features()));
    hidden_weights.push_back(drawn(d.hidden_size));
    biases.push_back(
        Tensor::filled(TensorDescriptor({d.hidden_size}), k % kGates == kForget ? 1 : 0));
  }
  return std::make_shared<LSTM>(d, input_weights, hidden_weights, std::vector<TensorPtr>{}, biases);
}

Block lstm_block(const std::string& text, std::optional<std::int64_t> inputs, std::int64_t hidden,
                 const LstmOptions& options) {
  const auto make = [=](const GraphPtr& graph, const TensorPtr& x, bool) {
    LSTMDescriptor d;
    d.input_size = channels_of(text, inputs, x);
    d.hidden_size = hidden;
    d.layer_count = options.layers;
    d.is_bidirectional = options.bidirectional;
    d.dropout = options.dropout;
    d.returns_sequences = options.returns_sequences;
    d.check("LSTM");
    TensorPtr result = graph->node(make_lstm(d), x);
    if (options.returns_sequences) return result;
    return graph->reshape({x->descriptor().shape.front(), d.features()}, result);
  };
  return layer_block(text, make);
}

Block attention_block(const std::string& text, std::optional<std::int64_t> inputs,
                      std::int64_t heads, const AttentionOptions& options) {
  const auto make = [=](const GraphPtr& graph, const TensorPtr& x, bool) {
    MultiheadAttentionDescriptor d(channels_of(text, inputs, x), heads);
    d.dropout = options.dropout;
    d.has_biases = options.bias;
    return graph->node(std::make_shared<MultiheadAttention>(d), std::vector<TensorPtr>{x, x, x});
  };
  return layer_block(text, make);
}

}  // namespace

Block lstm(std::int64_t hidden, LstmOptions options) {
  return lstm_block(call_text("lstm", hidden), std::nullopt, hidden, options);
}

Block lstm(std::int64_t inputs, std::int64_t hidden, LstmOptions options) {
  return lstm_block(call_text("lstm", inputs, hidden), inputs, hidden, options);
}

Block embedding(std::int64_t count, std::int64_t dimension,
                std::optional<std::int64_t> padding_index) {
  EmbeddingDescriptor d;
  d.embedding_count = count;
  d.embedding_dimension = dimension;
  d.padding_index = padding_index;
  d.check();
  const auto make = [d](const GraphPtr& graph, const TensorPtr& x, bool) {
    // Fans of 1: the variance is 1.
    const TensorPtr table =
        Tensor::random(TensorDescriptor({d.embedding_count, d.embedding_dimension}),
                       RandomInitializerType::kXavier, 1, 1);
    return graph->node(std::make_shared<Embedding>(d, table), x);
  };
  return layer_block(call_text("embedding", count, dimension), make, Block::Kind::kIndices);
}

Block attention(std::int64_t heads, AttentionOptions options) {
  return attention_block(call_text("attention", heads), std::nullopt, heads, options);
}

Block attention(std::int64_t inputs, std::int64_t heads, AttentionOptions options) {
  return attention_block(call_text("attention", inputs, heads), inputs, heads, options);
}

}  // namespace traingraph::nn
