// MPSCNNDropout and its gradient. What the masks of one kernel are at its next encoding Apple's
// pages do not say, so each encoding has a fresh kernel, whose seed is a number of the recording:
// the gradient fills its state by a forward kernel with that seed again, in whichever run
// (https://developer.apple.com/documentation/metalperformanceshaders/mpscnndropout).
#include "backends/metal/mps_entries.h"
#include "backends/metal/named_kernels.h"

namespace traingraph::metal {
namespace {

// x | dy, x; then the step and the seed.
class Masked : public ImageKernel {
 protected:
  Masked(const ir::Graph& graph, const ir::Node& node, Device& device, ImageOperands images)
      : ImageKernel(graph, device, std::move(images)),
        gpu_(device.objects().device),
        keep_(static_cast<float>(number_of(node, "keep_probability"))),
        strides_{count_of(node, "mask_stride_in_pixels.0"),
                 count_of(node, "mask_stride_in_pixels.1"),
                 count_of(node, "mask_stride_in_pixels.2")},
        seed_(node.inputs.back()) {}

  template <class K>
  Ref<K*> fresh(Pointers pointers, const Encoding& encoding) const {
    std::uint64_t seed = 0;
    encoding.device().read_written(&seed, pointers[seed_], sizeof seed);
    return Ref<K*>::own([[K alloc] initWithDevice:gpu_.get()
                                  keepProbability:keep_
                                             seed:seed
                               maskStrideInPixels:strides_]);
  }

  // The forward kernel with that seed, and the states that it fills.
  MPSStateBatch* encode_forward(Pointers pointers, Encoding& encoding, MPSImageBatch* sources,
                                MPSImageBatch* results) const {
    const auto kernel = fresh<MPSCNNDropout>(pointers, encoding);
    MPSStateBatch* states =
        [kernel.get() temporaryResultStateBatchForCommandBuffer:command_buffer(encoding)
                                                    sourceImage:sources
                                                   sourceStates:nil
                                               destinationImage:results];
    [kernel.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                sourceImages:sources
                           destinationStates:states
                           destinationImages:results];
    return states;
  }

 private:
  Ref<id<MTLDevice>> gpu_;
  float keep_;
  MTLSize strides_;
  ir::ValueId seed_;  // written by the host alone
};

class Dropout final : public Masked {
 public:
  Dropout(const ir::Graph& graph, const ir::Node& node, Device& device)
      : Masked(graph, node, device, {.sources = {{node.inputs[0]}}, .results = {node.outputs[0]}}) {
  }

 private:
  void encode_images(const Images& images, Pointers pointers, Encoding& encoding) override {
    MPSStateBatch* states = encode_forward(pointers, encoding, images.source(0), images.result(0));
    for (MPSState* state in states) [state setReadCount:0];
  }
};

// Constants of the recording: images that were encoded together, the first of these among them.
// Masks do not depend on what is masked, so the states are filled over images of zeros.
class DropoutGradient final : public Masked {
 public:
  DropoutGradient(const ir::Graph& graph, const ir::Node& node, Device& device)
      : Masked(graph, node, device,
               {.sources = {{node.inputs[0]}, {node.inputs[1]}}, .results = {node.outputs[0]}}),
        own_{count_of(node, "constant.1"), static_cast<NSUInteger>(images_of(graph, node)[0])},
        zeros_(blank_images(device, all_images_of(graph, node))),
        forward_result_(device, all_images_of(graph, node)) {}

 private:
  static const Shape& images_of(const ir::Graph& graph, const ir::Node& node) {
    return graph.type(node.inputs[0]).shape;
  }
  static Shape all_images_of(const ir::Graph& graph, const ir::Node& node) {
    Shape all = images_of(graph, node);
    all[0] = static_cast<std::int64_t>(number_of(node, "constant.0"));
    return all;
  }

  void encode_images(const Images& images, Pointers pointers, Encoding& encoding) override {
    // Nobody reads the result of the forward kernel, nor the states of images that are not here.
    MPSImageBatch* y = forward_result_.make(encoding, 1);
    MPSStateBatch* states = encode_forward(pointers, encoding, zeros_.get(), y);
    for (MPSImage* image in y) [(MPSTemporaryImage*)image setReadCount:0];
    for (NSUInteger k = 0; k < [states count]; ++k) {
      const bool is_here = k >= own_.location && k < own_.location + own_.length;
      if (!is_here) [[states objectAtIndex:k] setReadCount:0];
    }
    const auto kernel = fresh<MPSCNNDropoutGradient>(pointers, encoding);
    [kernel.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                             sourceGradients:images.source(0)
                                sourceImages:images.source(1)
                              gradientStates:[states subarrayWithRange:own_]
                        destinationGradients:images.result(0)];
  }

  NSRange own_;  // of all that were encoded together
  Ref<MPSImageBatch*> zeros_;
  ImagesAt forward_result_;
};

// Goes by the extents of an image alone, which both kernels share: neither is encoded by name
// without the other. A mask that was given is one more image.
template <std::size_t kSources>
std::string refuses(const ir::Graph& graph, const ir::Node& node) {
  if (node.inputs.size() > kSources && graph.type(node.inputs[kSources]).shape.size() == 4) {
    return "a mask that was given";
  }
  return refused_images(graph, std::vector{node.inputs[0]});
}

}  // namespace

std::vector<NamedKernel> named_dropout() {
  return {
      {"MPSCNNDropout", refuses<1>, make<Dropout>, always},
      {"MPSCNNDropoutGradient", refuses<2>, make<DropoutGradient>, always},
  };
}

}  // namespace traingraph::metal
