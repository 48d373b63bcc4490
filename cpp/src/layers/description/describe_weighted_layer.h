#pragma once

#include <traingraph/convolution.h>
#include <traingraph/describe.h>

#include "layers/description/sample.h"

// What convolutions and products with weights have in common.
namespace traingraph {

template <class T>
void describe_weighted_layer(Describing<T, Layer>& described) {
  described.property("descriptor", &T::descriptor, "Channels, kernel, strides and padding.")
      .parameter("weights", &T::weights, "The weights.")
      .optional_parameter("biases", &T::biases, "The biases, or None.")
      .form({argument<TensorPtr>("weights", "The weights."),
             optional_argument<TensorPtr>("biases", "The biases; None: there are none."),
             argument<ConvolutionDescriptor>("descriptor", "Channels, kernel and so on.")},
            [](const Given& given) {
              return std::make_shared<T>(given.get<TensorPtr>("weights"),
                                         given.get<TensorPtr>("biases"),
                                         given.get<ConvolutionDescriptor>("descriptor"));
            })
      .form({argument<ConvolutionDescriptor>("descriptor", "Channels, kernel and so on."),
             argument("with_biases", true, "Whether the layer makes biases.")},
            [](const Given& given) {
              return std::make_shared<T>(given.get<ConvolutionDescriptor>("descriptor"),
                                         given.get<bool>("with_biases"));
            });
}

// One weight and one bias over a source of these extents.
template <class T>
LayerSample weighted_sample(const Shape& one, Shape source, DataType type) {
  return {std::make_shared<T>(sample_parameter(one, type), sample_parameter(one, type),
                              ConvolutionDescriptor{}),
          {{std::move(source), type}}};
}

}  // namespace traingraph
