// Weights of a convolution, as its kernels keep them.
#pragma once
#include <functional>
#include <vector>

#include "kernel.h"
#include "neuron.h"

namespace apple {

struct ConvolutionWeights {
  NSUInteger width, height, inputs, outputs, groups;
  NSUInteger stride_x, stride_y, dilation_x, dilation_y;
  bool depthwise, half;
  bool whole_image = false;  // fully connected: one window, all of the source
  Neuron neuron;
  std::vector<float> weights;  // (output, y, x, input of the group)
  std::vector<float> biases;   // empty where there are none
  bool taken = false;          // those of the data source, by a gradient kernel's first encoding

  explicit ConvolutionWeights(id<MPSCNNConvolutionDataSource> source);

  NSUInteger inputs_of_group() const { return depthwise ? 1 : inputs / groups; }
  NSUInteger outputs_of_group() const { return depthwise ? 1 : outputs / groups; }
  NSUInteger index(NSUInteger output, NSUInteger y, NSUInteger x, NSUInteger input) const {
    return ((output * height + y) * width + x) * inputs_of_group() + input;
  }
  NSUInteger reach_x() const { return (width - 1) * dilation_x + 1; }
  NSUInteger reach_y() const { return (height - 1) * dilation_y + 1; }
  // As kept: rounded to half precision unless the data source asked for float32.
  void take(const float* new_weights, const float* new_biases);
};

// Calls visit(weight index, source x, source y, source channel) for each weight that the window of
// one result reads; (left, top) is the window's first texel.
template <class Visit>
void each_tap(const ConvolutionWeights& w, NSUInteger output, NSInteger left, NSInteger top,
              Visit visit) {
  const NSUInteger first = output / w.outputs_of_group() * w.inputs_of_group();
  for (NSUInteger y = 0; y < w.height; ++y)
    for (NSUInteger x = 0; x < w.width; ++x)
      for (NSUInteger input = 0; input < w.inputs_of_group(); ++input)
        visit(w.index(output, y, x, input), left + signed_of(x * w.dilation_x),
              top + signed_of(y * w.dilation_y), first + input);
}

// What work of a gradient kernel begins with: its first encoding takes the data source's weights.
std::function<void()> first_taken(const std::shared_ptr<ConvolutionWeights>& weights,
                                  id<MPSCNNConvolutionDataSource> source);

// Encodes that the weights are taken from a state.
void reload(const std::shared_ptr<ConvolutionWeights>& weights,
            MPSCNNConvolutionWeightsAndBiasesState* state, id<MTLCommandBuffer> commands,
            const char* what);

// A new state that gets the weights when the command buffer runs.
MPSCNNConvolutionWeightsAndBiasesState* export_weights(
    const std::shared_ptr<ConvolutionWeights>& weights, id<MTLDevice> device,
    id<MTLCommandBuffer> commands);

// A gradient state of this class with zeros for the sums of the gradients.
MPSCNNConvolutionGradientState* make_gradient_state(Class state_class, const ConvolutionWeights& w,
                                                    id<MTLDevice> device,
                                                    id<MTLCommandBuffer> commands);

}  // namespace apple

struct MPSCNNConvolutionInside {
  std::shared_ptr<apple::ConvolutionWeights> weights;
};
struct MPSCNNConvolutionGradientInside {
  std::shared_ptr<apple::ConvolutionWeights> weights;
};
struct MPSCNNConvolutionTransposeInside {
  std::shared_ptr<apple::ConvolutionWeights> weights;
};
struct MPSCNNConvolutionTransposeGradientInside {
  std::shared_ptr<apple::ConvolutionWeights> weights;
};
