// Concatenations and slices along channels, over images where another kernel of the run gives or
// wants such: MPSNNSlice copies channels to or from a place that is a multiple of 4, as Apple asks
// of such places (https://developer.apple.com/documentation/metalperformanceshaders/mpscnnkernel).
#include "backends/metal/image_kernel.h"
#include "backends/metal/mps_entries.h"
#include "backends/metal/shader_kernel.h"

namespace traingraph::metal {
namespace {

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

Ref<MPSNNSlice*> new_slice(Device& device) {
  return Ref<MPSNNSlice*>::own([[MPSNNSlice alloc] initWithDevice:device.objects().device.get()]);
}

std::unique_ptr<Kernel> own_shader(const ir::Graph& graph, const ir::Node& node, Device& device) {
  for (const KernelEntry& entry : data_movement_entries()) {
    if (entry.op == node.op) return entry.make(graph, node, device);
  }
  return nullptr;
}

class Concatenation final : public MemoryOrImages {
 public:
  Concatenation(const ir::Graph& graph, const ir::Node& node, Device& device)
      : MemoryOrImages(graph, node, device, own_shader(graph, node, device)) {
    NSUInteger at = 0;
    for (ir::ValueId input : node.inputs) {
      parts_.push_back(new_slice(device));
      [parts_.back().get() setDestinationFeatureChannelOffset:at];
      at += static_cast<NSUInteger>(graph.type(input).shape[1]);
    }
  }

 private:
  void encode_images(const Images& images, Pointers, Encoding& encoding) override {
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      [parts_[k].get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                     sourceImages:images.source(k)
                                destinationImages:images.result(0)];
    }
  }
  std::vector<Ref<MPSNNSlice*>> parts_;  // one for each source
};

class Slice final : public MemoryOrImages {
 public:
  Slice(const ir::Graph& graph, const ir::Node& node, Device& device)
      : MemoryOrImages(graph, node, device, own_shader(graph, node, device)),
        kernel_(new_slice(device)) {
    const auto& slice = std::get<ir::SliceAttributes>(node.attributes);
    [kernel_.get() setSourceFeatureChannelOffset:static_cast<NSUInteger>(slice.start)];
    [kernel_.get() setSourceFeatureChannelMaxCount:static_cast<NSUInteger>(slice.extent)];
  }

 private:
  void encode_images(const Images& images, Pointers, Encoding& encoding) override {
    [kernel_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                 sourceImages:images.source(0)
                            destinationImages:images.result(0)];
  }
  Ref<MPSNNSlice*> kernel_;
};

}  // namespace

std::vector<KernelEntry> mps_concatenation_entries() {
  return {{ir::Op::concatenate, supports_concatenation, make<Concatenation>},
          {ir::Op::slice, supports_slice, make<Slice>}};
}

}  // namespace traingraph::metal
