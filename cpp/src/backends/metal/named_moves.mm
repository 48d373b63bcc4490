// What gives an image another shape: MPSNNReshape, MPSNNPad, MPSNNResizeBilinear.
#include "backends/metal/named_kernels.h"

namespace traingraph::metal {
namespace {

MPSImageCoordinate coordinate_of(const ir::Node& node, const std::string& name) {
  return {count_of(node, name + ".0"), count_of(node, name + ".1"), count_of(node, name + ".2")};
}

// The result's first pixel reads the source's pixel at the offset, which is none.
Ref<MPSNNPad*> padding_by(id<MTLDevice> gpu, const MPSImageCoordinate& before,
                          const MPSImageCoordinate& after, NSUInteger edge_mode) {
  const auto kernel = Ref<MPSNNPad*>::own([[MPSNNPad alloc] initWithDevice:gpu
                                                         paddingSizeBefore:before
                                                          paddingSizeAfter:after]);
  [kernel.get()
      setOffset:MPSOffset{-static_cast<NSInteger>(before.x), -static_cast<NSInteger>(before.y), 0}];
  [kernel.get() setEdgeMode:static_cast<MPSImageEdgeMode>(edge_mode)];
  return kernel;
}

Ref<MPSCNNKernel*> pad(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  const auto kernel =
      padding_by(gpu, coordinate_of(node, "padding_size_before"),
                 coordinate_of(node, "padding_size_after"), count_of(node, "edge_mode"));
  [kernel.get() setFillValue:static_cast<float>(number_of(node, "fill_value"))];
  return Ref<MPSCNNKernel*>::keep(kernel.get());
}

// Where the source lies in its padding Apple's page does not say: here it is in the state, whose
// forward kernel has padded by that much, and in the offset and edge mode of the gradient kernel.
std::unique_ptr<Kernel> make_pad_gradient(const ir::Graph& graph, const ir::Node& node,
                                          Device& device) {
  const Pool pool;
  id<MTLDevice> gpu = device.objects().device.get();
  const MPSOffset first = offset_of(node, "primary_offset");
  const Shape &padded = graph.type(node.inputs[0]).shape, &own = graph.type(node.inputs[1]).shape;
  const auto after = [&](std::size_t axis, NSInteger before) {
    return static_cast<NSUInteger>(padded[axis] - own[axis] - before);
  };
  const NSUInteger edge_mode = count_of(node, "secondary_edge_mode");
  const auto forward =
      padding_by(gpu,
                 {static_cast<NSUInteger>(first.x), static_cast<NSUInteger>(first.y),
                  static_cast<NSUInteger>(first.z)},
                 {after(3, first.x), after(2, first.y), after(1, first.z)}, edge_mode);
  const auto kernel = Ref<MPSNNPadGradient*>::own([[MPSNNPadGradient alloc] initWithDevice:gpu]);
  [kernel.get() setPrimaryOffset:first];
  [kernel.get() setSecondaryEdgeMode:static_cast<MPSImageEdgeMode>(edge_mode)];
  return std::make_unique<GradientImages>(graph, node, device,
                                          Ref<MPSCNNKernel*>::keep(forward.get()),
                                          Ref<MPSCNNGradientKernel*>::keep(kernel.get()));
}

std::string refuses_pad_gradient(const ir::Graph& graph, const ir::Node& node) {
  const MPSOffset first = offset_of(node, "primary_offset");
  const Shape &padded = graph.type(node.inputs[0]).shape, &own = graph.type(node.inputs[1]).shape;
  const auto is_within = [&](std::size_t axis, NSInteger before) {
    return before >= 0 && before <= padded[axis] - own[axis];
  };
  if (!is_within(3, first.x) || !is_within(2, first.y) || !is_within(1, first.z)) {
    return "an offset that no padding has";
  }
  return refuses_two_sources(graph, node);
}

std::string refuses_pad(const ir::Graph& graph, const ir::Node& node) {
  // Whether such an array counts channels of the source or of the result, Apple's page leaves open.
  if (number_of(node, "fill_value_array.0", -1) != -1) return "a fill value per channel";
  return refused_images(graph, node, 1);
}

Ref<MPSCNNKernel*> resize(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  return Ref<MPSCNNKernel*>::own([[MPSNNResizeBilinear alloc]
      initWithDevice:gpu
         resizeWidth:count_of(node, "resize_width")
        resizeHeight:count_of(node, "resize_height")
        alignCorners:count_of(node, "align_corners") != 0]);
}

}  // namespace

std::vector<NamedKernel> named_moves() {
  return {
      {"MPSNNReshape", refuses_one_source, make_forward<plain<MPSNNReshape>>},
      {"MPSNNReshapeGradient", refuses_two_sources,
       make_gradient<plain<MPSNNReshape>, plain_gradient<MPSNNReshapeGradient>>},
      {"MPSNNPad", refuses_pad, make_forward<pad>},
      {"MPSNNPadGradient", refuses_pad_gradient, make_pad_gradient, always},
      {"MPSNNResizeBilinear", refuses_one_source, make_forward<resize>},
  };
}

}  // namespace traingraph::metal
