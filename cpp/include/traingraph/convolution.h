// Layers with weights and optional biases: `Convolution` (standard, transposed, depthwise) and
// `FullyConnected`.
#pragma once

#include <traingraph/layer.h>

namespace traingraph {

enum class ConvolutionType : int { kStandard = 0, kTransposed = 1, kDepthwise = 2 };

// Sizes in pixels; y is the height, x the width.
struct TRAINGRAPH_API ConvolutionDescriptor {
  static const ClassDescription& class_description();
  ConvolutionType type = ConvolutionType::kStandard;
  std::int64_t kernel_height = 1;
  std::int64_t kernel_width = 1;
  std::int64_t input_feature_channel_count = 1;
  std::int64_t output_feature_channel_count = 1;
  std::int64_t group_count = 1;
  std::int64_t stride_y = 1;
  std::int64_t stride_x = 1;
  std::int64_t dilation_y = 1;
  std::int64_t dilation_x = 1;
  PaddingPolicy padding_policy = PaddingPolicy::kSame;
  std::int64_t padding_y = 0;
  std::int64_t padding_x = 0;
};

// The base of both: weights, and maybe biases.
class TRAINGRAPH_API WeightedLayer : public Layer {
 public:
  const ConvolutionDescriptor& descriptor() const { return descriptor_; }
  TensorParameter& weights() { return weights_; }
  // tensor is null without biases
  TensorParameter& biases() { return biases_; }
  std::vector<TensorParameter*> parameters() override;
  std::vector<std::pair<std::string, TensorPtr>> named_parameters() const override;

 protected:
  WeightedLayer(std::string label, ConvolutionDescriptor descriptor, TensorPtr weights,
                TensorPtr biases);
  const TensorPtr& weights_tensor() const { return weights_.tensor; }
  const TensorPtr& biases_tensor() const { return biases_.tensor; }

 private:
  ConvolutionDescriptor descriptor_;
  TensorParameter weights_;
  TensorParameter biases_;
};

// Shapes: x (N, C, H, W) → (N, O, P, Q); weights (O, C / groups, kh, kw), or of a transposed one
// (C, O / groups, kh, kw), in that element order, held by a tensor of any shape with as many
// elements; biases O elements.
class TRAINGRAPH_API Convolution final : public WeightedLayer {
 public:
  static const ClassDescription& class_description();
  Convolution(TensorPtr weights, TensorPtr biases, ConvolutionDescriptor descriptor);
  // Makes its own parameters: Glorot-uniform weights with real fans, zero biases.
  explicit Convolution(ConvolutionDescriptor descriptor, bool with_biases = true);
  std::string description() const override;
  void emit(Emitter& emitter) const override;
};

// y = x Wᵀ + b on the last axis, or (N, C, 1, 1) → (N, O, 1, 1). Weights (O, C) row-major, held by
// a tensor of any shape with as many elements.
class TRAINGRAPH_API FullyConnected final : public WeightedLayer {
 public:
  static const ClassDescription& class_description();
  FullyConnected(TensorPtr weights, TensorPtr biases, ConvolutionDescriptor descriptor);
  explicit FullyConnected(ConvolutionDescriptor descriptor, bool with_biases = true);
  FullyConnected(std::int64_t inputs, std::int64_t outputs, bool with_biases = true);
  std::string description() const override;
  void emit(Emitter& emitter) const override;
};

}  // namespace traingraph
