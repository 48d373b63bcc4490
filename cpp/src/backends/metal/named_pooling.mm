// MPSCNNPooling… and their gradients.
#include "backends/metal/named_kernels.h"

namespace traingraph::metal {
namespace {

MPSImageEdgeMode edge_of(const ir::Node& node, const std::string& prefix) {
  return static_cast<MPSImageEdgeMode>(count_of(node, prefix + "edge_mode"));
}

// A kernel of either kind: the archives name sizes alike, behind a prefix.
template <class K>
Ref<K*> sized(const ir::Node& node, id<MTLDevice> gpu, const std::string& prefix) {
  return Ref<K*>::own([[K alloc] initWithDevice:gpu
                                    kernelWidth:count_of(node, prefix + "kernel_width")
                                   kernelHeight:count_of(node, prefix + "kernel_height")
                                strideInPixelsX:count_of(node, prefix + "stride_in_pixels_x")
                                strideInPixelsY:count_of(node, prefix + "stride_in_pixels_y")]);
}
template <class K>
Ref<K*> dilated(const ir::Node& node, id<MTLDevice> gpu, const std::string& prefix) {
  return Ref<K*>::own([[K alloc] initWithDevice:gpu
                                    kernelWidth:count_of(node, prefix + "kernel_width")
                                   kernelHeight:count_of(node, prefix + "kernel_height")
                                  dilationRateX:count_of(node, prefix + "dilation_rate_x")
                                  dilationRateY:count_of(node, prefix + "dilation_rate_y")
                                strideInPixelsX:count_of(node, prefix + "stride_in_pixels_x")
                                strideInPixelsY:count_of(node, prefix + "stride_in_pixels_y")]);
}

template <class K>
void place(K* kernel, const ir::Node& node, const std::string& prefix) {
  [kernel setEdgeMode:edge_of(node, prefix)];
  [kernel setOffset:pixels_of(node, prefix + "offset")];
}

template <class K>
Ref<MPSCNNKernel*> forward(const ir::Node& node, id<MTLDevice> gpu, const std::string& prefix) {
  const Ref<K*> kernel = sized<K>(node, gpu, prefix);
  place(kernel.get(), node, prefix);
  return Ref<MPSCNNKernel*>::keep(kernel.get());
}

Ref<MPSCNNKernel*> average(const ir::Node& node, id<MTLDevice> gpu, const std::string& prefix) {
  const auto kernel = sized<MPSCNNPoolingAverage>(node, gpu, prefix);
  place(kernel.get(), node, prefix);
  [kernel.get() setZeroPadSizeX:count_of(node, "zero_pad_size_x")];
  [kernel.get() setZeroPadSizeY:count_of(node, "zero_pad_size_y")];
  return Ref<MPSCNNKernel*>::keep(kernel.get());
}

Ref<MPSCNNKernel*> dilated_max(const ir::Node& node, id<MTLDevice> gpu, const std::string& prefix) {
  const auto kernel = dilated<MPSCNNDilatedPoolingMax>(node, gpu, prefix);
  place(kernel.get(), node, prefix);
  return Ref<MPSCNNKernel*>::keep(kernel.get());
}

// What is read of the incoming gradient is cut out before: all of it counts.
template <class K>
Ref<MPSCNNGradientKernel*> placed_gradient(K* kernel, const ir::Node& node) {
  [kernel setPrimaryEdgeMode:edge_of(node, "secondary_")];
  [kernel setSecondaryEdgeMode:edge_of(node, "secondary_")];
  [kernel setSecondaryOffset:pixels_of(node, "secondary_offset")];
  return Ref<MPSCNNGradientKernel*>::keep(kernel);
}

template <class K>
Ref<MPSCNNGradientKernel*> gradient(const ir::Node& node, id<MTLDevice> gpu) {
  return placed_gradient(sized<K>(node, gpu, "secondary_").get(), node);
}

Ref<MPSCNNGradientKernel*> average_gradient(const ir::Node& node, id<MTLDevice> gpu) {
  const auto kernel = sized<MPSCNNPoolingAverageGradient>(node, gpu, "secondary_");
  [kernel.get() setZeroPadSizeX:count_of(node, "zero_pad_size_x")];
  [kernel.get() setZeroPadSizeY:count_of(node, "zero_pad_size_y")];
  return placed_gradient(kernel.get(), node);
}

Ref<MPSCNNGradientKernel*> dilated_max_gradient(const ir::Node& node, id<MTLDevice> gpu) {
  return placed_gradient(dilated<MPSCNNDilatedPoolingMaxGradient>(node, gpu, "secondary_").get(),
                         node);
}

}  // namespace

std::vector<NamedKernel> named_pooling() {
  using Max = MPSCNNPoolingMax;
  using Norm = MPSCNNPoolingL2Norm;
  return {
      {"MPSCNNPoolingMax", refuses_one_source, make_forward<forward<Max>>},
      {"MPSCNNPoolingMaxGradient", refuses_two_sources,
       make_gradient<forward<Max>, gradient<MPSCNNPoolingMaxGradient>>},
      {"MPSCNNPoolingAverage", refuses_one_source, make_forward<average>},
      {"MPSCNNPoolingAverageGradient", refuses_two_sources,
       make_gradient<average, average_gradient>},
      {"MPSCNNPoolingL2Norm", refuses_one_source, make_forward<forward<Norm>>},
      {"MPSCNNPoolingL2NormGradient", refuses_two_sources,
       make_gradient<forward<Norm>, gradient<MPSCNNPoolingL2NormGradient>>},
      {"MPSCNNDilatedPoolingMax", refuses_one_source, make_forward<dilated_max>},
      {"MPSCNNDilatedPoolingMaxGradient", refuses_two_sources,
       make_gradient<dilated_max, dilated_max_gradient>},
  };
}

}  // namespace traingraph::metal
