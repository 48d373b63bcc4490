// Averages and their gradient by Metal Performance Shaders, over images. Maxima stay with an own
// shader: Apple says neither what becomes of NaN, which wins here, nor which of equal elements the
// gradient goes to, which is the first one here.
#include "backends/metal/images.h"
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

class Average final : public Kernel {
 public:
  Average(const ir::Graph& graph, const ir::Node& node, Device& device)
      : x_value_(node.inputs[0]),
        y_value_(node.outputs[0]),
        x_(device, graph.type(x_value_).shape),
        y_(device, graph.type(y_value_).shape) {
    const auto& a = std::get<ir::PoolingAttributes>(node.attributes);
    kernel_ = kernel_of<MPSCNNPoolingAverage>(a.window, device);
    [kernel_.get() setEdgeMode:edge_of(a)];
    [kernel_.get() setOffset:offset_of(a.window)];
  }

  void encode(Pointers pointers, Encoding& encoding) override {
    MPSImageBatch* x = x_.read(encoding, pointers[x_value_], 1);
    MPSImageBatch* y = y_.make(encoding, 1);
    [kernel_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                 sourceImages:x
                            destinationImages:y];
    y_.write(encoding, y, pointers[y_value_]);
  }

 private:
  ir::ValueId x_value_, y_value_;
  ImagesAt x_, y_;
  Ref<MPSCNNPoolingAverage*> kernel_;
};

// dy → dx, of an average: of the forward source only the size matters.
class AverageGradient final : public Kernel {
 public:
  AverageGradient(const ir::Graph& graph, const ir::Node& node, Device& device)
      : dy_value_(node.inputs[0]),
        dx_value_(node.outputs[0]),
        dy_(device, graph.type(dy_value_).shape),
        dx_(device, graph.type(dx_value_).shape) {
    const auto& a = std::get<ir::PoolingAttributes>(node.attributes);
    const Shape& x = graph.type(dx_value_).shape;
    kernel_ = kernel_of<MPSCNNPoolingAverageGradient>(a.window, device);
    const MPSOffset offset = offset_of(a.window);
    [kernel_.get() setPrimaryOffset:MPSOffset{0, 0, 0}];
    [kernel_.get() setSecondaryOffset:offset];
    [kernel_.get() setPrimaryEdgeMode:edge_of(a)];
    [kernel_.get() setSecondaryEdgeMode:edge_of(a)];
    [kernel_.get()
        setSourceSize:MTLSizeMake(static_cast<NSUInteger>(x[3]), static_cast<NSUInteger>(x[2]), 1)];
    dx_.make_blanks(device);
    const Pool pool;
    forward_ = kernel_of<MPSCNNPoolingAverage>(a.window, device);
    [forward_.get() setOffset:offset];
    [forward_.get() setEdgeMode:edge_of(a)];
  }

  void encode(Pointers pointers, Encoding& encoding) override {
    MPSImageBatch* dy = dy_.read(encoding, pointers[dy_value_], 1);
    MPSImageBatch* dx = dx_.make(encoding, 1);
    MPSStateBatch* states =
        [forward_.get() temporaryResultStateBatchForCommandBuffer:command_buffer(encoding)
                                                      sourceImage:dx_.blanks()
                                                     sourceStates:nil
                                                 destinationImage:dy];
    [kernel_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                              sourceGradients:dy
                                 sourceImages:dx_.blanks()
                               gradientStates:states
                         destinationGradients:dx];
    dx_.write(encoding, dx, pointers[dx_value_]);
  }

 private:
  ir::ValueId dy_value_, dx_value_;
  ImagesAt dy_, dx_;
  Ref<MPSCNNPoolingAverage*> forward_;
  Ref<MPSCNNPoolingAverageGradient*> kernel_;
};

}  // namespace

std::vector<KernelEntry> mps_pooling_entries() {
  return {{ir::Op::pooling, supports, make<Average>},
          {ir::Op::pooling_gradient, supports, make<AverageGradient>}};
}

}  // namespace traingraph::metal
