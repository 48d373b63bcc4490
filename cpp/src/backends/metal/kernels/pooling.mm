// MPSCNNPooling… and their gradients: averages for ops, and what traingraph.mps encodes by name.
// Other ops stay with a hand-written shader: Apple says neither what becomes of NaN, which wins
// here, nor which of equal elements the gradient goes to, which is the first one here.
#include <type_traits>

#include "backends/metal/kernels/entries.h"
#include "backends/metal/kernels/named_kernels.h"
#include "backends/metal/shaders/shader_kernel.h"

namespace traingraph::metal {
namespace {

// A forward kernel; its gradient kernel has the same numbers.
struct Pooling {
  NSUInteger width, height, stride_x, stride_y, dilation_x = 1, dilation_y = 1;
  MPSOffset offset;
  MPSImageEdgeMode edge_mode;
  NSUInteger zero_pad_x = 0, zero_pad_y = 0;
};

Pooling pooling_of(const ir::PoolingAttributes& a) {
  const auto count = [](std::int64_t number) { return static_cast<NSUInteger>(number); };
  const ir::Window& w = a.window;
  // A window starts at offset - size / 2 for Apple, and at -padding here. With zeros around the
  // image every window counts whole; else only what is in the image counts.
  return {
      .width = count(w.kernel[1]),
      .height = count(w.kernel[0]),
      .stride_x = count(w.stride[1]),
      .stride_y = count(w.stride[0]),
      .offset = {w.kernel[1] / 2 - w.padding_before[1], w.kernel[0] / 2 - w.padding_before[0], 0},
      .edge_mode = a.count_includes_padding ? MPSImageEdgeModeZero : MPSImageEdgeModeClamp};
}

// The archives of both kernels name sizes alike, behind a prefix.
Pooling pooling_of(const ir::Node& node, const std::string& prefix) {
  const auto count = [&](const char* name) { return count_of(node, prefix + name); };
  return {.width = count("kernel_width"),
          .height = count("kernel_height"),
          .stride_x = count("stride_in_pixels_x"),
          .stride_y = count("stride_in_pixels_y"),
          .dilation_x = count("dilation_rate_x"),
          .dilation_y = count("dilation_rate_y"),
          .offset = pixels_of(node, prefix + "offset"),
          .edge_mode = static_cast<MPSImageEdgeMode>(count("edge_mode")),
          .zero_pad_x = count_of(node, "zero_pad_size_x"),
          .zero_pad_y = count_of(node, "zero_pad_size_y")};
}

template <class K, class... Classes>
constexpr bool kIsOneOf = (std::is_same_v<K, Classes> || ...);

// K is a forward or a gradient kernel.
template <class K>
Ref<K*> sized(const Pooling& p, id<MTLDevice> gpu) {
  if constexpr (kIsOneOf<K, MPSCNNDilatedPoolingMax, MPSCNNDilatedPoolingMaxGradient>) {
    return Ref<K*>::own([[K alloc] initWithDevice:gpu
                                      kernelWidth:p.width
                                     kernelHeight:p.height
                                    dilationRateX:p.dilation_x
                                    dilationRateY:p.dilation_y
                                  strideInPixelsX:p.stride_x
                                  strideInPixelsY:p.stride_y]);
  } else {
    auto kernel = Ref<K*>::own([[K alloc] initWithDevice:gpu
                                             kernelWidth:p.width
                                            kernelHeight:p.height
                                         strideInPixelsX:p.stride_x
                                         strideInPixelsY:p.stride_y]);
    if constexpr (kIsOneOf<K, MPSCNNPoolingAverage, MPSCNNPoolingAverageGradient>) {
      [kernel.get() setZeroPadSizeX:p.zero_pad_x];
      [kernel.get() setZeroPadSizeY:p.zero_pad_y];
    }
    return kernel;
  }
}

template <class K>
Ref<K*> forward(const Pooling& p, id<MTLDevice> gpu) {
  const Ref<K*> kernel = sized<K>(p, gpu);
  [kernel.get() setEdgeMode:p.edge_mode];
  [kernel.get() setOffset:p.offset];
  return kernel;
}

// What is read of the incoming gradient is cut out before: all of it counts.
template <class K>
Ref<K*> gradient(const Pooling& p, id<MTLDevice> gpu) {
  const Ref<K*> kernel = sized<K>(p, gpu);
  [kernel.get() setPrimaryEdgeMode:p.edge_mode];
  [kernel.get() setSecondaryEdgeMode:p.edge_mode];
  [kernel.get() setSecondaryOffset:p.offset];
  return kernel;
}

// --- ops -----------------------------------------------------------------------------------------

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

std::unique_ptr<Kernel> make_average(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const Pool pool;
  const Pooling p = pooling_of(std::get<ir::PoolingAttributes>(node.attributes));
  return forward_images(graph, node, device,
                        forward<MPSCNNPoolingAverage>(p, device.objects().device.get()));
}

// dy → dx, of an average: of the forward source only the size matters.
std::unique_ptr<Kernel> make_average_gradient(const ir::Graph& graph, const ir::Node& node,
                                              Device& device) {
  const Pool pool;
  id<MTLDevice> gpu = device.objects().device.get();
  const Pooling p = pooling_of(std::get<ir::PoolingAttributes>(node.attributes));
  return gradient_images(graph, {node.inputs[0], ir::kNone, node.outputs[0]}, device,
                         forward<MPSCNNPoolingAverage>(p, gpu),
                         gradient<MPSCNNPoolingAverageGradient>(p, gpu));
}

// --- by name -------------------------------------------------------------------------------------

template <class K>
Ref<K*> named_forward(const ir::Node& node, id<MTLDevice> gpu, const std::string& prefix) {
  return forward<K>(pooling_of(node, prefix), gpu);
}
template <class K>
Ref<K*> named_gradient(const ir::Node& node, id<MTLDevice> gpu, const std::string& prefix) {
  return gradient<K>(pooling_of(node, prefix), gpu);
}
template <class K, class G>
void add_pair(std::vector<NamedKernel>& to) {
  to.push_back(forward_row<K, named_forward<K>>());
  to.push_back(gradient_row<G, named_forward<K>, named_gradient<G>>());
}

}  // namespace

std::vector<KernelEntry> mps_pooling_entries() {
  return {{ir::Op::pooling, supports, make_average},
          {ir::Op::pooling_gradient, supports, make_average_gradient}};
}

std::vector<NamedKernel> named_pooling() {
  std::vector<NamedKernel> all;
  add_pair<MPSCNNPoolingMax, MPSCNNPoolingMaxGradient>(all);
  add_pair<MPSCNNPoolingAverage, MPSCNNPoolingAverageGradient>(all);
  add_pair<MPSCNNPoolingL2Norm, MPSCNNPoolingL2NormGradient>(all);
  add_pair<MPSCNNDilatedPoolingMax, MPSCNNDilatedPoolingMaxGradient>(all);
  return all;
}

}  // namespace traingraph::metal
