// Weights of a run in Apple's order, the data source that answers for them, and sums of gradients.
#include "backends/metal/images/weights_and_biases.h"

#include <algorithm>

#include "backends/metal/images/data_source.h"

// What a kernel asks when it is made; the weights themselves come by reloads.
@interface TraingraphConvolutionSource : TraingraphDataSource <MPSCNNConvolutionDataSource> {
 @public
  MPSCNNConvolutionDescriptor* descriptor_;  // not retained: its kernel's C++ side holds it
  void* weights_;
  float* biases_;  // null: the kernel has none
}
@end

@implementation TraingraphConvolutionSource
- (MPSDataType)dataType {
  return MPSDataTypeFloat32;
}
- (MPSDataType)kernelWeightsDataType {
  return MPSDataTypeFloat32;
}
- (MPSCNNConvolutionDescriptor*)descriptor {
  return descriptor_;
}
- (void*)weights {
  return weights_;
}
- (float*)biasTerms {
  return biases_;
}
- (id)copyWithZone:(NSZone*)zone {
  TraingraphConvolutionSource* copy = [[[self class] allocWithZone:zone] init];
  copy->descriptor_ = descriptor_;
  copy->weights_ = weights_;
  copy->biases_ = biases_;
  return copy;
}
@end

namespace traingraph::metal {

Ref<MPSCNNConvolutionDescriptor*> convolution_descriptor(const ir::Window& window,
                                                         std::int64_t groups, std::int64_t inputs,
                                                         std::int64_t outputs) {
  const Pool pool;
  MPSCNNConvolutionDescriptor* descriptor = [MPSCNNConvolutionDescriptor
      cnnConvolutionDescriptorWithKernelWidth:static_cast<NSUInteger>(window.kernel[1])
                                 kernelHeight:static_cast<NSUInteger>(window.kernel[0])
                         inputFeatureChannels:static_cast<NSUInteger>(inputs)
                        outputFeatureChannels:static_cast<NSUInteger>(outputs)];
  [descriptor setStrideInPixelsX:static_cast<NSUInteger>(window.stride[1])];
  [descriptor setStrideInPixelsY:static_cast<NSUInteger>(window.stride[0])];
  [descriptor setDilationRateX:static_cast<NSUInteger>(window.dilation[1])];
  [descriptor setDilationRateY:static_cast<NSUInteger>(window.dilation[0])];
  [descriptor setGroups:static_cast<NSUInteger>(groups)];
  return Ref<MPSCNNConvolutionDescriptor*>::keep(descriptor);
}

WeightsAndBiases::WeightsAndBiases(Device& device, const Shape& weights, bool has_biases,
                                   Ref<MPSCNNConvolutionDescriptor*> descriptor)
    : move_(device.shader("move")),
      copy_(device.shader("copy_runs")),
      elements_(element_count(weights)),
      channels_(weights[0]),
      weights_(device.keep(static_cast<std::size_t>(elements_) * sizeof(float))),
      descriptor_(std::move(descriptor)) {
  const Pool pool;
  // (O, I, kh, kw) here, (O, kh, kw, I) there.
  to_apple_.extents = extents_of(weights);
  to_apple_.source = broadcast_strides(weights, weights);
  const Shape order = {weights[0], weights[2], weights[3], weights[1]};
  const shader::Strides dense = broadcast_strides(order, order);
  for (std::size_t k = 0; k < 4; ++k) {
    constexpr std::size_t kPlace[] = {0, 3, 1, 2};
    // An axis of extent 1 has no stride in broadcast_strides, and needs none.
    to_apple_.target.step[k] = dense.step[kPlace[k]];
  }
  from_apple_ = {to_apple_.extents, to_apple_.target, to_apple_.source};
  if (has_biases) {
    biases_ = device.keep(static_cast<std::size_t>(channels_) * sizeof(float));
    std::fill_n(reinterpret_cast<float*>(biases_.get()), channels_, 0.0f);
  }

  const auto source =
      Ref<TraingraphConvolutionSource*>::own([[TraingraphConvolutionSource alloc] init]);
  source.get()->descriptor_ = descriptor_.get();
  source.get()->weights_ = weights_.get();
  source.get()->biases_ = reinterpret_cast<float*>(biases_.get());
  source_ = Ref<id<MPSCNNConvolutionDataSource>>::keep(source.get());
  state_ = Ref<MPSCNNConvolutionWeightsAndBiasesState*>::own(
      [[MPSCNNConvolutionWeightsAndBiasesState alloc]
          initWithWeights:place(device, weights_.get()).buffer
                   biases:biases_ ? place(device, biases_.get()).buffer : nil]);
}

void WeightsAndBiases::load(Encoding& encoding, const std::byte* weights,
                            const std::byte* biases) const {
  const std::byte* buffers[] = {weights, weights_.get()};
  encoding.run(move_, buffers, 2, &to_apple_, sizeof to_apple_, elements_);
  if (biases != nullptr) copy_row(encoding, copy_, biases, biases_.get(), channels_);
}

void WeightsAndBiases::write_sums(Encoding& encoding, MPSCNNConvolutionGradientState* state,
                                  const std::byte* weights, const std::byte* biases) const {
  const Device& device = encoding.device();
  run(encoding, move_, {{[state gradientForWeights], 0}, place(device, weights)}, &from_apple_,
      sizeof from_apple_, elements_);
  if (biases == nullptr) return;
  const shader::Runs all{narrow(channels_), 0, 0, 0, 0};
  run(encoding, copy_, {{[state gradientForBiases], 0}, place(device, biases)}, &all, sizeof all,
      channels_);
}

}  // namespace traingraph::metal
