// Blocks over sequences (N, T, C) and indices.
#include <numeric>

#include <traingraph/arithmetic.h>
#include <traingraph/attention.h>
#include <traingraph/convolution.h>
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

LayerPtr make_lstm(const TensorPtr& x, const LSTMDescriptor& d) {
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
  return std::make_shared<LSTM>(d, like_source(x, input_weights), like_source(x, hidden_weights),
                                std::vector<TensorPtr>{}, like_source(x, biases));
}

std::vector<TensorPtr> with_lengths(std::vector<TensorPtr> sources, const TensorPtr& lengths) {
  if (lengths != nullptr) sources.push_back(lengths);
  return sources;
}

Block lstm_block(const std::string& text, std::optional<std::int64_t> inputs, std::int64_t hidden,
                 const LstmOptions& options) {
  const auto make = [=](const GraphPtr& graph, const TensorPtr& x, const TensorPtr& lengths) {
    LSTMDescriptor d;
    d.input_size = channels_of(text, inputs, x);
    d.hidden_size = hidden;
    d.layer_count = options.layers;
    d.is_bidirectional = options.bidirectional;
    d.dropout = options.dropout;
    d.returns_sequences = options.returns_sequences;
    d.check("LSTM");
    TensorPtr result = graph->node(make_lstm(x, d), with_lengths({x}, lengths));
    if (options.returns_sequences) return result;
    return graph->reshape({x->descriptor().shape.front(), d.features()}, result);
  };
  return sequence_block(text, make);
}

// The gates of GRU and what they make, of sequences (N, T, C) that are projected at once:
// r and z = sigmoid(x W + h U), n = tanh(x W + r (h U)), h' = n + z (h - n).
class Gru {
 public:
  Gru(const GraphPtr& graph, const TensorPtr& x, std::int64_t hidden)
      : graph_(graph),
        x_(x),
        hidden_(hidden),
        steps_(split(projected(x, x->descriptor().shape[2]), x->descriptor().shape[1], 1)),
        recurrent_(projection(hidden)) {}

  // (N, 1, hidden) of each step.
  std::vector<TensorPtr> run() {
    TensorPtr state = like_source(x_, Tensor::filled(TensorDescriptor({1, 1, hidden_}), 0));
    std::vector<TensorPtr> states;
    for (const TensorPtr& step : steps_) {
      const std::vector<TensorPtr> given = split(step, kGates, 2);
      const std::vector<TensorPtr> kept = split(graph_->node(recurrent_, state), kGates, 2);
      const TensorPtr reset = activated("sigmoid", add(given[0], kept[0]));
      const TensorPtr update = activated("sigmoid", add(given[1], kept[1]));
      const TensorPtr fresh = activated("tanh", add(given[2], multiply(reset, kept[2])));
      state = add(fresh, multiply(update, binary(ArithmeticOperation::kSubtract, state, fresh)));
      states.push_back(state);
    }
    return states;
  }

 private:
  static constexpr std::int64_t kGates = 3;

  LayerPtr projection(std::int64_t inputs) const {
    ConvolutionDescriptor d;
    d.input_feature_channel_count = inputs;
    d.output_feature_channel_count = kGates * hidden_;
    return std::make_shared<FullyConnected>(
        like_source(x_, Tensor::random(TensorDescriptor({kGates * hidden_, inputs}),
                                       RandomInitializerType::kGlorotUniform, inputs, hidden_)),
        like_source(x_, Tensor::filled(TensorDescriptor({kGates * hidden_}), 0)), d);
  }
  TensorPtr projected(const TensorPtr& x, std::int64_t inputs) {
    return graph_->node(projection(inputs), x);
  }
  std::vector<TensorPtr> split(const TensorPtr& x, std::int64_t count, std::int64_t axis) {
    return graph_->split(x, count, axis);
  }
  TensorPtr binary(ArithmeticOperation operation, const TensorPtr& a, const TensorPtr& b) {
    return graph_->node(std::make_shared<Arithmetic>(operation), std::vector<TensorPtr>{a, b});
  }
  TensorPtr add(const TensorPtr& a, const TensorPtr& b) {
    return binary(ArithmeticOperation::kAdd, a, b);
  }
  TensorPtr multiply(const TensorPtr& a, const TensorPtr& b) {
    return binary(ArithmeticOperation::kMultiply, a, b);
  }
  TensorPtr activated(const char* name, const TensorPtr& x) { return activation(name)(graph_, x); }

  const GraphPtr& graph_;
  const TensorPtr& x_;
  const std::int64_t hidden_;
  const std::vector<TensorPtr> steps_;
  const LayerPtr recurrent_;
};

Block attention_block(const std::string& text, std::optional<std::int64_t> inputs,
                      std::int64_t heads, const AttentionOptions& options) {
  const auto make = [=](const GraphPtr& graph, const TensorPtr& x, const TensorPtr& lengths) {
    MultiheadAttentionDescriptor d(channels_of(text, inputs, x), heads);
    d.dropout = options.dropout;
    d.has_biases = options.bias;
    d.causal = options.causal;
    const MultiheadAttention own(d);
    return graph->node(std::make_shared<MultiheadAttention>(d, like_source(x, own.weights()),
                                                            like_source(x, own.biases())),
                       with_lengths({x, x, x}, lengths));
  };
  return sequence_block(text, make);
}

}  // namespace

Block lstm(std::int64_t hidden, LstmOptions options) {
  return lstm_block(call_text("lstm", hidden), std::nullopt, hidden, options);
}

Block lstm(std::int64_t inputs, std::int64_t hidden, LstmOptions options) {
  return lstm_block(call_text("lstm", inputs, hidden), inputs, hidden, options);
}

Block gru(std::int64_t hidden, GruOptions options) {
  const std::string text = call_text("gru", hidden);
  expect_some(text, "hidden units", hidden);
  const auto make = [=](const GraphPtr& graph, const TensorPtr& x, bool) {
    channels_of(text, std::nullopt, x);
    const std::vector<TensorPtr> states = Gru(graph, x, hidden).run();
    if (!options.returns_sequences) {
      return graph->reshape({x->descriptor().shape[0], hidden}, states.back());
    }
    return states.size() == 1 ? states[0] : graph->concatenate(states, 1);
  };
  return layer_block(text, make);
}

Block positional_embedding() {
  const std::string text = call_text("positional_embedding");
  const auto make = [text](const GraphPtr& graph, const TensorPtr& x, bool) {
    EmbeddingDescriptor d;
    d.embedding_dimension = channels_of(text, std::nullopt, x);
    d.embedding_count = x->descriptor().shape[1];
    const Initializer normal = "random_normal";
    const TensorPtr table =
        like_source(x, normal.make({d.embedding_count, d.embedding_dimension}, 1, 1));
    std::vector<std::int32_t> places(static_cast<std::size_t>(d.embedding_count));
    std::iota(places.begin(), places.end(), 0);
    const TensorDescriptor row({1, d.embedding_count}, DataType::kInt32);
    const TensorPtr rows =
        graph->node(std::make_shared<Embedding>(d, table),
                    Tensor::create(row, TensorData::copy_of(places.data(), row.allocation_bytes(),
                                                            row.data_type, row.shape)));
    return graph->node(std::make_shared<Arithmetic>(ArithmeticOperation::kAdd),
                       std::vector<TensorPtr>{x, rows});
  };
  return layer_block(text, make);
}

Block embedding(std::int64_t count, std::int64_t dimension,
                std::optional<std::int64_t> padding_index, DataType data_type) {
  EmbeddingDescriptor d;
  d.embedding_count = count;
  d.embedding_dimension = dimension;
  d.padding_index = padding_index;
  d.check();
  if (data_type != DataType::kFloat32 && data_type != DataType::kFloat64) {
    throw DataTypeError("[embedding] expected a table of float32 or float64 but got " +
                        std::string(name(data_type)));
  }
  const auto make = [d, data_type](const GraphPtr& graph, const TensorPtr& x, bool) {
    // Fans of 1: the variance is 1.
    const TensorPtr table =
        Tensor::random(TensorDescriptor({d.embedding_count, d.embedding_dimension}),
                       RandomInitializerType::kXavier, 1, 1);
    return graph->node(std::make_shared<Embedding>(d, in_type(data_type, table)), x);
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
