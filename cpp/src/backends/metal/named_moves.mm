// What gives an image another shape: MPSNNReshape, MPSNNPad, MPSNNResizeBilinear.
#include "backends/metal/named_kernels.h"

namespace traingraph::metal {
namespace {

template <class K>
Ref<MPSCNNKernel*> plain(const ir::Node&, id<MTLDevice> gpu, const std::string&) {
  return Ref<MPSCNNKernel*>::own([[K alloc] initWithDevice:gpu]);
}
template <class K>
Ref<MPSCNNGradientKernel*> plain_gradient(const ir::Node&, id<MTLDevice> gpu) {
  return Ref<MPSCNNGradientKernel*>::own([[K alloc] initWithDevice:gpu]);
}

MPSImageCoordinate coordinate_of(const ir::Node& node, const std::string& name) {
  return {count_of(node, name + ".0"), count_of(node, name + ".1"), count_of(node, name + ".2")};
}

// The result's first pixel reads the source's pixel at the offset, which is none.
Ref<MPSCNNKernel*> pad(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  const auto kernel = Ref<MPSNNPad*>::own([[MPSNNPad alloc]
         initWithDevice:gpu
      paddingSizeBefore:coordinate_of(node, "padding_size_before")
       paddingSizeAfter:coordinate_of(node, "padding_size_after")]);
  const auto before = [&node](const char* axis) {
    return static_cast<NSInteger>(number_of(node, std::string("padding_size_before") + axis));
  };
  [kernel.get() setOffset:MPSOffset{-before(".0"), -before(".1"), 0}];
  [kernel.get() setFillValue:static_cast<float>(number_of(node, "fill_value"))];
  [kernel.get() setEdgeMode:static_cast<MPSImageEdgeMode>(count_of(node, "edge_mode"))];
  return Ref<MPSCNNKernel*>::keep(kernel.get());
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
      {"MPSNNResizeBilinear", refuses_one_source, make_forward<resize>},
  };
}

}  // namespace traingraph::metal
