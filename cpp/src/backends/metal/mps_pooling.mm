// Averages and their gradient by Metal Performance Shaders, over images. Maxima stay with an own
// shader: Apple says neither what becomes of NaN, which wins here, nor which of equal elements the
// gradient goes to, which is the first one here.
#include "backends/metal/image_kernel.h"
#include "backends/metal/mps_entries.h"
#include "backends/metal/shader_kernel.h"

namespace traingraph::metal {
namespace {

// A window starts at offset - size / 2 for Apple, and at -padding here.
MPSOffset offset_of(const ir::Window& window) {
  return {window.kernel[1] / 2 - window.padding_before[1],
          window.kernel[0] / 2 - window.padding_before[0], 0};
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const Support support = supports_float(graph, node);
  if (!support.yes) return support;
  const auto& a = std::get<ir::PoolingAttributes>(node.attributes);
  if (a.kind != ir::PoolingKind::average) return Support::no("mps: pooling that is no average");
  if (a.window.dilation[0] != 1 || a.window.dilation[1] != 1) {
    return Support::no("mps: pooling with a dilation");
  }
  for (ir::ValueId id : {node.inputs[0], node.outputs[0]}) {
    const std::string reason = no_images(graph.type(id).shape);
    if (!reason.empty()) return Support::no("mps: " + reason);
  }
  return {};
}

// K is a kernel of Apple's that takes a size and a stride.
template <class K>
Ref<K*> kernel_of(const ir::Window& window, Device& device) {
  return Ref<K*>::own([[K alloc] initWithDevice:device.objects().device.get()
                                    kernelWidth:static_cast<NSUInteger>(window.kernel[1])
                                   kernelHeight:static_cast<NSUInteger>(window.kernel[0])
                                strideInPixelsX:static_cast<NSUInteger>(window.stride[1])
                                strideInPixelsY:static_cast<NSUInteger>(window.stride[0])]);
}

// With zeros around the image every window counts whole; else only what is in the image counts.
MPSImageEdgeMode edge_of(const ir::PoolingAttributes& a) {
  return a.count_includes_padding ? MPSImageEdgeModeZero : MPSImageEdgeModeClamp;
}

class Average final : public ImageKernel {
 public:
  Average(const ir::Graph& graph, const ir::Node& node, Device& device)
      : ImageKernel(graph, device, {.sources = {{node.inputs[0]}}, .results = {node.outputs[0]}}) {
    const auto& a = std::get<ir::PoolingAttributes>(node.attributes);
    kernel_ = kernel_of<MPSCNNPoolingAverage>(a.window, device);
    [kernel_.get() setEdgeMode:edge_of(a)];
    [kernel_.get() setOffset:offset_of(a.window)];
  }

 private:
  void encode_images(const Images& images, Pointers, Encoding& encoding) override {
    [kernel_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                 sourceImages:images.source(0)
                            destinationImages:images.result(0)];
  }

  Ref<MPSCNNPoolingAverage*> kernel_;
};

// dy → dx, of an average: of the forward source only the size matters.
class AverageGradient final : public ImageKernel {
 public:
  AverageGradient(const ir::Graph& graph, const ir::Node& node, Device& device)
      : ImageKernel(graph, device, {.sources = {{node.inputs[0]}}, .results = {node.outputs[0]}}) {
    const auto& a = std::get<ir::PoolingAttributes>(node.attributes);
    const Shape& x = graph.type(node.outputs[0]).shape;
    kernel_ = kernel_of<MPSCNNPoolingAverageGradient>(a.window, device);
    const MPSOffset offset = offset_of(a.window);
    [kernel_.get() setPrimaryOffset:MPSOffset{0, 0, 0}];
    [kernel_.get() setSecondaryOffset:offset];
    [kernel_.get() setPrimaryEdgeMode:edge_of(a)];
    [kernel_.get() setSecondaryEdgeMode:edge_of(a)];
    [kernel_.get()
        setSourceSize:MTLSizeMake(static_cast<NSUInteger>(x[3]), static_cast<NSUInteger>(x[2]), 1)];
    like_x_ = blank_images(device, x);
    forward_ = kernel_of<MPSCNNPoolingAverage>(a.window, device);
    [forward_.get() setOffset:offset];
    [forward_.get() setEdgeMode:edge_of(a)];
  }

 private:
  void encode_images(const Images& images, Pointers, Encoding& encoding) override {
    MPSStateBatch* states =
        [forward_.get() temporaryResultStateBatchForCommandBuffer:command_buffer(encoding)
                                                      sourceImage:like_x_.get()
                                                     sourceStates:nil
                                                 destinationImage:images.source(0)];
    [kernel_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                              sourceGradients:images.source(0)
                                 sourceImages:like_x_.get()
                               gradientStates:states
                         destinationGradients:images.result(0)];
  }

  Ref<MPSImageBatch*> like_x_;
  Ref<MPSCNNPoolingAverage*> forward_;
  Ref<MPSCNNPoolingAverageGradient*> kernel_;
};

}  // namespace

std::vector<KernelEntry> mps_pooling_entries() {
  return {{ir::Op::pooling, supports, make<Average>},
          {ir::Op::pooling_gradient, supports, make<AverageGradient>}};
}

}  // namespace traingraph::metal
