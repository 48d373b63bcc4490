// What moves elements between images: MPSCNNNeuron without a function for concatenations and slices
// of ops along channels, where another kernel of the run gives or wants images, and MPSNNReshape,
// MPSNNPad and MPSNNResizeBilinear, which traingraph.mps encodes by name. MPSCNNNeuron has the
// offsets of all kernels, which are multiples of 4; MPSNNSlice writes from the first channel
// (https://developer.apple.com/documentation/metalperformanceshaders/mpscnnkernel).
#include "backends/metal/kernels/entries.h"
#include "backends/metal/kernels/named_kernels.h"
#include "backends/metal/shaders/shader_kernel.h"

namespace traingraph::metal {
namespace {

// --- ops -----------------------------------------------------------------------------------------

constexpr std::int64_t kSlice = 4;  // channels

Support supports_images(const ir::Graph& graph, const ir::Node& node, int axis) {
  const Support support = supports_float(graph, node);
  if (!support.yes) return support;
  if (axis != 1) return Support::no("mps: along another axis than that of channels");
  for (const auto* operands : {&node.inputs, &node.outputs}) {
    for (ir::ValueId id : *operands) {
      const std::string reason = no_images(graph.type(id).shape);
      if (!reason.empty()) return Support::no("mps: " + reason);
    }
  }
  return {};
}

const Support kBetween = Support::no("mps: channels that begin at no multiple of 4");

Support supports_concatenation(const ir::Graph& graph, const ir::Node& node) {
  const int axis = std::get<ir::AxisAttributes>(node.attributes).axis;
  const Support support = supports_images(graph, node, axis);
  if (!support.yes) return support;
  std::int64_t at = 0;
  for (ir::ValueId input : node.inputs) {
    if (at % kSlice != 0) return kBetween;
    at += graph.type(input).shape[1];
  }
  return {};
}

Support supports_slice(const ir::Graph& graph, const ir::Node& node) {
  const auto& slice = std::get<ir::SliceAttributes>(node.attributes);
  const Support support = supports_images(graph, node, slice.axis);
  if (!support.yes) return support;
  return slice.start % kSlice == 0 ? Support{} : kBetween;
}

Ref<MPSCNNNeuron*> new_copy(Device& device) {
  const Pool pool;
  return Ref<MPSCNNNeuron*>::own([[MPSCNNNeuron alloc]
        initWithDevice:device.objects().device.get()
      neuronDescriptor:[MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:MPSCNNNeuronTypeNone]]);
}

std::unique_ptr<Kernel> own_shader(const ir::Graph& graph, const ir::Node& node, Device& device) {
  for (const KernelEntry& entry : data_movement_entries()) {
    if (entry.op == node.op) return entry.make(graph, node, device);
  }
  return nullptr;
}

std::unique_ptr<Kernel> make_concatenation(const ir::Graph& graph, const ir::Node& node,
                                           Device& device) {
  std::vector<Ref<MPSCNNNeuron*>> parts;  // one for each source
  NSUInteger at = 0;
  for (ir::ValueId input : node.inputs) {
    parts.push_back(new_copy(device));
    [parts.back().get() setDestinationFeatureChannelOffset:at];
    at += static_cast<NSUInteger>(graph.type(input).shape[1]);
  }
  return std::make_unique<ImageKernel>(
      graph, device, ImageOperands::all_of(node),
      [parts](const Images& images, Pointers, Encoding& encoding) {
        for (std::size_t k = 0; k < parts.size(); ++k) {
          [parts[k].get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                        sourceImages:images.source(k)
                                   destinationImages:images.result(0)];
        }
      },
      own_shader(graph, node, device));
}

std::unique_ptr<Kernel> make_slice(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const auto& slice = std::get<ir::SliceAttributes>(node.attributes);
  const Ref<MPSCNNNeuron*> kernel = new_copy(device);
  [kernel.get() setSourceFeatureChannelOffset:static_cast<NSUInteger>(slice.start)];
  [kernel.get() setSourceFeatureChannelMaxCount:static_cast<NSUInteger>(slice.extent)];
  return forward_images(graph, node, device, kernel, own_shader(graph, node, device));
}

// --- by name -------------------------------------------------------------------------------------

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

Ref<MPSNNPad*> pad(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  const auto kernel =
      padding_by(gpu, coordinate_of(node, "padding_size_before"),
                 coordinate_of(node, "padding_size_after"), count_of(node, "edge_mode"));
  [kernel.get() setFillValue:float_of(node, "fill_value")];
  return kernel;
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
  return gradient_images(graph, {node.inputs[0], node.inputs[1], node.outputs[0]}, device, forward,
                         kernel);
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

Ref<MPSNNResizeBilinear*> resize(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  return Ref<MPSNNResizeBilinear*>::own([[MPSNNResizeBilinear alloc]
      initWithDevice:gpu
         resizeWidth:count_of(node, "resize_width")
        resizeHeight:count_of(node, "resize_height")
        alignCorners:count_of(node, "align_corners") != 0]);
}

}  // namespace

std::vector<KernelEntry> mps_move_entries() {
  return {{ir::Op::concatenate, supports_concatenation, make_concatenation},
          {ir::Op::slice, supports_slice, make_slice}};
}

std::vector<NamedKernel> named_moves() {
  return {
      forward_row<MPSNNReshape, plain<MPSNNReshape>>(),
      gradient_row<MPSNNReshapeGradient, plain<MPSNNReshape>, plain<MPSNNReshapeGradient>>(),
      {"MPSNNPad", refuses_pad, make_forward<pad>},
      {"MPSNNPadGradient", refuses_pad_gradient, make_pad_gradient, unsettled},
      forward_row<MPSNNResizeBilinear, resize>(),
  };
}

}  // namespace traingraph::metal
