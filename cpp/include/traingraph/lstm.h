// The layer `LSTM`, stacked and in one or two directions, with its descriptor.
#pragma once

#include <vector>

#include <traingraph/activation.h>
#include <traingraph/layer.h>

namespace traingraph {

enum class LSTMResultMode : int { kOutput = 0, kOutputAndStates = 1 };

// What an LSTM reads and gives. Numbers outside their ranges raise InvalidArgument in the layer.
struct TRAINGRAPH_API LSTMDescriptor {
  static const ClassDescription& class_description();
  std::int64_t input_size = 1;
  std::int64_t hidden_size = 1;
  std::int64_t layer_count = 1;
  bool uses_biases = true;
  bool batch_first = true;
  bool is_bidirectional = false;
  bool returns_sequences = true;
  float dropout = 0;
  LSTMResultMode result_mode = LSTMResultMode::kOutput;

  std::int64_t directions() const { return is_bidirectional ? 2 : 1; }
  // Features of the result.
  std::int64_t features() const { return directions() * hidden_size; }
  void check(const std::string& subject) const;
};

// Stacked LSTMs over sequences x (N, T, I), in one direction or both:
//   i = act(W_i x + U_i h + b_i), f and o alike, g = act(W_g x + U_g h + b_g),
//   c' = f c + i g, h' = o act(c')
// Lists of tensors have four per layer, of the gates input, forget, cell and output, all layers
// forward before all layers backward: input weights (H, I), those of later layers
// (H, directions H), hidden weights (H, H), biases (H), each held by a tensor of any shape with as
// many elements.
class TRAINGRAPH_API LSTM final : public Layer {
 public:
  static const ClassDescription& class_description();
  // Empty lists: no peepholes, no biases; sigmoid, sigmoid, tanh, sigmoid. Peepholes (H): three per
  // layer and direction, of the gates input, forget and output, or four of which the third, that of
  // the cell, is zero.
  LSTM(LSTMDescriptor descriptor, std::vector<TensorPtr> input_weights,
       std::vector<TensorPtr> hidden_weights, std::vector<TensorPtr> peephole_weights = {},
       std::vector<TensorPtr> biases = {}, std::vector<ActivationDescriptor> gate_activations = {},
       ActivationDescriptor output_result_activation = ActivationDescriptor(ActivationType::kTanh));

  const LSTMDescriptor& descriptor() const { return descriptor_; }
  const std::vector<ActivationDescriptor>& gate_activations() const { return gate_activations_; }
  const ActivationDescriptor& output_result_activation() const { return output_activation_; }
  std::vector<TensorParameter>& input_weights() { return input_weights_; }
  std::vector<TensorParameter>& hidden_weights() { return hidden_weights_; }
  // empty without peepholes, biases
  std::vector<TensorParameter>& peephole_weights() { return peephole_weights_; }
  std::vector<TensorParameter>& biases() { return biases_; }
  // Without the zeros among the peepholes.
  std::vector<TensorParameter*> parameters() override;
  std::vector<std::pair<std::string, TensorPtr>> named_parameters() const override;
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  std::vector<std::size_t> trained_peepholes() const;

  LSTMDescriptor descriptor_;
  std::vector<TensorParameter> input_weights_;
  std::vector<TensorParameter> hidden_weights_;
  std::vector<TensorParameter> peephole_weights_;
  std::vector<TensorParameter> biases_;
  std::vector<ActivationDescriptor> gate_activations_;
  ActivationDescriptor output_activation_;
};

// "Output", "Output and States"
TRAINGRAPH_API const char* debug_description(LSTMResultMode mode);

}  // namespace traingraph
