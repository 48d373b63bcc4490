// Multi-head attention with learned projections, masks and dropout: descriptor and layer.
#pragma once

#include <traingraph/layer.h>

namespace traingraph {

// Sizes of multi-head attention. Queries and results have model_dimension elements, keys and values
// what their dimensions say; each of the heads has model_dimension / head_count.
struct TRAINGRAPH_API MultiheadAttentionDescriptor {
  static const ClassDescription& class_description();
  std::int64_t model_dimension = 1;
  std::int64_t key_dimension = 1;
  std::int64_t value_dimension = 1;
  std::int64_t head_count = 1;
  float dropout = 0;  // of probabilities, in training
  bool has_biases = true;
  bool has_attention_biases = false;
  bool adds_zero_attention = false;
  bool causal = false;  // key j is masked for query i where j > i; an addition to ML Compute

  MultiheadAttentionDescriptor() = default;
  // Keys and values of the model dimension.
  MultiheadAttentionDescriptor(std::int64_t model_dimension, std::int64_t head_count);
  std::int64_t head_dimension() const { return model_dimension / head_count; }
  // Raises InvalidArgument for a number outside its range, for heads that do not divide the model
  // dimension, and for appended rows of causal attention, which are keys without a position.
  void check() const;
};

// query (N, L, E), key (N, S, K), value (N, S, V) [, key mask (N, S) or lengths (N) of int32] [,
// attention mask (1, L, S) or (N * heads, L, S)] → (N, L, E): softmax(q kᵀ / sqrt(d) + mask) v per
// head between projections. A fourth source of rank 3 is the attention mask. Keys and values are
// not read behind their lengths; where the query is the key too, its result is zero there.
class TRAINGRAPH_API MultiheadAttention final : public Layer {
 public:
  static const ClassDescription& class_description();
  // Weights of query, key, value and output: E * E, E * K, E * V and E * E elements in rows of what
  // they read. Biases of the same, E elements each; attention biases of key and value, E elements
  // each. Empty: there are none.
  MultiheadAttention(MultiheadAttentionDescriptor descriptor, std::vector<TensorPtr> weights,
                     std::vector<TensorPtr> biases = {},
                     std::vector<TensorPtr> attention_biases = {});
  // Makes its own: Glorot-uniform weights and attention biases, zero biases, as the descriptor
  // says.
  explicit MultiheadAttention(MultiheadAttentionDescriptor descriptor);

  const MultiheadAttentionDescriptor& descriptor() const { return descriptor_; }
  std::vector<TensorPtr> weights() const;
  std::vector<TensorPtr> biases() const;            // empty without
  std::vector<TensorPtr> attention_biases() const;  // empty without
  std::vector<TensorParameter*> weights_parameters();
  std::vector<TensorParameter*> biases_parameters();
  std::vector<TensorParameter*> parameters() override;
  std::vector<std::pair<std::string, TensorPtr>> named_parameters() const override;
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  MultiheadAttentionDescriptor descriptor_;
  std::vector<TensorParameter> weights_, biases_, attention_biases_;
};

}  // namespace traingraph
