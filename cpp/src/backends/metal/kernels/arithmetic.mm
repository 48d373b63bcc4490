// MPSCNNAdd and its siblings, and the gradients of three of them.
#include <cmath>

#include "backends/metal/images/states.h"
#include "backends/metal/kernels/entries.h"
#include "backends/metal/kernels/named_kernels.h"

namespace traingraph::metal {
namespace {

template <class K>
Ref<K*> arithmetic(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  const auto kernel = Ref<K*>::own([[K alloc] initWithDevice:gpu]);
  const auto number = [&node](const char* name) { return float_of(node, name); };
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
  return kernel;
}

Ref<MPSNNCompare*> comparison(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  const Ref<MPSNNCompare*> kernel = arithmetic<MPSNNCompare>(node, gpu, "");
  [kernel.get()
      setComparisonType:static_cast<MPSNNComparisonType>(count_of(node, "comparison_type"))];
  [kernel.get() setThreshold:float_of(node, "threshold")];
  return kernel;
}

// Where bounds were reached, this library keeps in an image of its own for the gradient.
std::string refuses(const ir::Graph& graph, const ir::Node& node) {
  if (node.outputs.size() > 1) return "a gradient state behind bounds";
  return refused_images(graph, node, 2);
}

// Constants of a gradient's recording: channels, rows and columns that the forward kernel has read
// of the source, and the first row and column.
Shape read_of_source(const ir::Node& node, std::int64_t images) {
  const auto constant = [&node](const char* name) {
    return static_cast<std::int64_t>(number_of(node, name));
  };
  return {images, constant("constant.0"), constant("constant.1"), constant("constant.2")};
}

std::string refuses_gradient(const ir::Graph& graph, const ir::Node& node) {
  if (node.inputs.size() > 2) return "a gradient state behind bounds";
  const Shape& source = graph.type(node.outputs[0]).shape;
  if (source != read_of_source(node, source[0]) || number_of(node, "constant.3") != 0 ||
      number_of(node, "constant.4") != 0) {
    return "a source of which a part was read";
  }
  return refused_images(graph, node, 2);
}

template <class K>
void take_unbounded(K* kernel) {
  [kernel setMinimumValue:-INFINITY];
  [kernel setMaximumValue:INFINITY];
}

// Apple's gradient kernels read a state in which the forward kernel has noted what it clamped
// (https://developer.apple.com/documentation/metalperformanceshaders/mpscnnarithmeticgradientstate).
// Here nothing was, so the state comes from a forward kernel without bounds over images of zeros,
// which have the sizes of the two sources: what NaN and infinity pass, no page says.
template <class K, class G>
std::unique_ptr<Kernel> make_arithmetic_gradient(const ir::Graph& graph, const ir::Node& node,
                                                 Device& device) {
  const Pool pool;
  id<MTLDevice> gpu = device.objects().device.get();
  const bool is_secondary = number_of(node, "is_secondary_source_filter") != 0;
  const Shape &gradient = graph.type(node.inputs[0]).shape,
              &own = graph.type(node.outputs[0]).shape, &other = graph.type(node.inputs[1]).shape;
  const auto forward = Ref<K*>::own([[K alloc] initWithDevice:gpu]);
  const auto kernel = Ref<G*>::own([[G alloc] initWithDevice:gpu
                                     isSecondarySourceFilter:is_secondary]);
  take_unbounded(forward.get());
  take_unbounded(kernel.get());
  // One element along an axis stands for all.
  const auto stride = [&gradient](const Shape& shape, std::size_t axis) {
    return NSUInteger{shape[axis] == gradient[axis] ? 1u : 0u};
  };
  const Shape &primary = is_secondary ? other : own, &secondary = is_secondary ? own : other;
  [forward.get() setPrimaryStrideInFeatureChannels:stride(primary, 1)];
  [forward.get() setPrimaryStrideInPixelsY:stride(primary, 2)];
  [forward.get() setPrimaryStrideInPixelsX:stride(primary, 3)];
  [forward.get() setSecondaryStrideInFeatureChannels:stride(secondary, 1)];
  [forward.get() setSecondaryStrideInPixelsY:stride(secondary, 2)];
  [forward.get() setSecondaryStrideInPixelsX:stride(secondary, 3)];
  [kernel.get() setSecondaryStrideInFeatureChannels:stride(other, 1)];
  [kernel.get() setSecondaryStrideInPixelsY:stride(other, 2)];
  [kernel.get() setSecondaryStrideInPixelsX:stride(other, 3)];
  [kernel.get() setPrimaryScale:float_of(node, "primary_scale")];
  [kernel.get() setSecondaryScale:float_of(node, "secondary_scale")];
  const Ref<MPSImageBatch*> zeros = blank_images(device, primary),
                            other_zeros = blank_images(device, secondary);
  return std::make_unique<ImageKernel>(
      graph, device, ImageOperands::all_of(node),
      [forward, kernel, zeros, other_zeros, result = ImagesAt(device, gradient)](
          const Images& images, Pointers, Encoding& encoding) {
        // Nobody reads the result of the forward kernel.
        MPSImageBatch* y = result.make(encoding, 1);
        MPSStateBatch* states =
            held([forward.get() temporaryResultStateBatchForCommandBuffer:command_buffer(encoding)
                                                             primaryImage:zeros.get()
                                                           secondaryImage:other_zeros.get()
                                                             sourceStates:nil
                                                         destinationImage:y],
                 forward.get());
        [forward.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                    primaryImages:zeros.get()
                                  secondaryImages:other_zeros.get()
                                destinationStates:(MPSCNNArithmeticGradientStateBatch*)states
                                destinationImages:y];
        drop(y);
        [kernel.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                 sourceGradients:images.source(0)
                                    sourceImages:images.source(1)
                                  gradientStates:states
                            destinationGradients:images.result(0)];
        end_reads(states);
      });
}

}  // namespace

// Not settled are the gradients, because Apple's pages do not say whether that of a subtrahend is
// negated by its scale or by itself, nor that elements which stand for many get the sum; and the
// comparison, of which they do not say what a threshold, scales and a bias make of it.
std::vector<NamedKernel> named_arithmetic() {
  return {
      {"MPSCNNAdd", refuses, make_binary<arithmetic<MPSCNNAdd>>},
      {"MPSCNNSubtract", refuses, make_binary<arithmetic<MPSCNNSubtract>>},
      {"MPSCNNMultiply", refuses, make_binary<arithmetic<MPSCNNMultiply>>},
      {"MPSCNNDivide", refuses, make_binary<arithmetic<MPSCNNDivide>>},
      {"MPSNNCompare", refuses, make_binary<comparison>, unsettled},
      {"MPSCNNAddGradient", refuses_gradient,
       make_arithmetic_gradient<MPSCNNAdd, MPSCNNAddGradient>, unsettled},
      {"MPSCNNSubtractGradient", refuses_gradient,
       make_arithmetic_gradient<MPSCNNSubtract, MPSCNNSubtractGradient>, unsettled},
      {"MPSCNNMultiplyGradient", refuses_gradient,
       make_arithmetic_gradient<MPSCNNMultiply, MPSCNNMultiplyGradient>, unsettled},
  };
}

}  // namespace traingraph::metal
