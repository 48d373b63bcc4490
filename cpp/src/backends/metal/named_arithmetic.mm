// MPSCNNAdd and its siblings. Their gradient kernels are composed of other ops: Apple's kernels
// read a state that the forward kernel has written, and the gradient's op has one of its sources
// (https://developer.apple.com/documentation/metalperformanceshaders/mpscnnarithmeticgradientstate).
#include "backends/metal/named_kernels.h"

namespace traingraph::metal {
namespace {

template <class K>
Ref<MPSCNNBinaryKernel*> arithmetic(const ir::Node& node, id<MTLDevice> gpu) {
  const auto kernel = Ref<K*>::own([[K alloc] initWithDevice:gpu]);
  const auto number = [&node](const char* name) {
    return static_cast<float>(number_of(node, name));
  };
  [kernel.get() setPrimaryScale:number("primary_scale")];
  [kernel.get() setSecondaryScale:number("secondary_scale")];
  [kernel.get() setBias:number("bias")];
  [kernel.get() setMinimumValue:number("minimum_value")];
  [kernel.get() setMaximumValue:number("maximum_value")];
  [kernel.get() setPrimaryStrideInPixelsX:count_of(node, "primary_stride_in_pixels_x")];
  [kernel.get() setPrimaryStrideInPixelsY:count_of(node, "primary_stride_in_pixels_y")];
  [kernel.get()
      setPrimaryStrideInFeatureChannels:count_of(node, "primary_stride_in_feature_channels")];
  [kernel.get() setSecondaryStrideInPixelsX:count_of(node, "secondary_stride_in_pixels_x")];
  [kernel.get() setSecondaryStrideInPixelsY:count_of(node, "secondary_stride_in_pixels_y")];
  [kernel.get()
      setSecondaryStrideInFeatureChannels:count_of(node, "secondary_stride_in_feature_channels")];
  return Ref<MPSCNNBinaryKernel*>::keep(kernel.get());
}

// Where bounds were reached, this library keeps in an image of its own for the gradient.
std::string refuses(const ir::Graph& graph, const ir::Node& node) {
  if (node.outputs.size() > 1) return "a gradient state behind bounds";
  return refused_images(graph, node, 2);
}

}  // namespace

std::vector<NamedKernel> named_arithmetic() {
  return {
      {"MPSCNNAdd", refuses, make_binary<arithmetic<MPSCNNAdd>>},
      {"MPSCNNSubtract", refuses, make_binary<arithmetic<MPSCNNSubtract>>},
      {"MPSCNNMultiply", refuses, make_binary<arithmetic<MPSCNNMultiply>>},
      {"MPSCNNDivide", refuses, make_binary<arithmetic<MPSCNNDivide>>},
  };
}

}  // namespace traingraph::metal
