#pragma once

#include <string>

#include <traingraph/mps/convolution.h>

#include "mps/recording/recording.h"
#include "mps/recording/storage.h"

namespace traingraph::mps {

// (O, I / groups, kh, kw), as the ops have it.
Shape weights_shape(const CNNConvolutionDescriptor& descriptor);
// (O, kh, kw, I / groups), as data sources have it.
Shape weights_in_order(const CNNConvolutionDescriptor& descriptor);
// Whether their weights are of one shape.
bool have_same_weights(const CNNConvolutionDescriptor& a, const CNNConvolutionDescriptor& b);
// Bytes in Apple's order (O, kh, kw, I / groups), which is a layout of the ops' shape.
StoragePtr weights_storage(const Device& device, const CNNConvolutionDescriptor& descriptor,
                           DataType type);
StoragePtr biases_storage(const Device& device, const CNNConvolutionDescriptor& descriptor,
                          DataType type);
// The weights and, where there are any, the biases as the next inputs.
void add_weights(Recording& recording, const ConvolutionWeights& weights);
// The weights and biases of a kernel from a state, and into a new one.
void encode_reload(Recording& recording, const std::string& who, const ConvolutionWeights& weights,
                   const CNNConvolutionWeightsAndBiasesState& state);
std::shared_ptr<CNNConvolutionWeightsAndBiasesState> encode_export(
    Recording& recording, const ConvolutionWeights& weights);
// A buffer over this storage, which lives on a command buffer unless that is null.
std::shared_ptr<Buffer> buffer_over(StoragePtr storage, const CommandBuffer* temporary_on);
// Sizes, strides and dilations; offset 0.
KernelWindow window_of(const CNNConvolutionDescriptor& descriptor);
// Raises InvalidArgument naming what cannot be.
void check(const CNNConvolutionDescriptor& descriptor, const std::string& who);
// Raises DataTypeError.
void check_weights_type(DataType type, const std::string& who);
// Raises Unsupported.
void refuse_sub_pixels(const CNNConvolutionDescriptor& descriptor, const char* kind);

}  // namespace traingraph::mps
