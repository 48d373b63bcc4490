#pragma once

#include <string>

#include <traingraph/mps/convolution.h>

#include "mps/storage.h"

namespace traingraph::mps {

// (O, I / groups, kh, kw), as the ops have it.
Shape weights_shape(const CNNConvolutionDescriptor& descriptor);
// Bytes in Apple's order (O, kh, kw, I / groups), which is a layout of the ops' shape.
StoragePtr weights_storage(const Device& device, const CNNConvolutionDescriptor& descriptor,
                           DataType type);
StoragePtr biases_storage(const Device& device, const CNNConvolutionDescriptor& descriptor,
                          DataType type);
// Raises InvalidArgument naming what cannot be.
void check(const CNNConvolutionDescriptor& descriptor, const std::string& who);

}  // namespace traingraph::mps
