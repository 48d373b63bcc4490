// MPSCNNDropout and its gradient. What the masks of one kernel are at its next encoding Apple's
// pages do not say, so each encoding has a fresh kernel, whose seed is a number of the recording:
// the gradient fills its state by a forward kernel with that seed again, in whichever run
// (https://developer.apple.com/documentation/metalperformanceshaders/mpscnndropout).
#include "backends/metal/images/states.h"
#include "backends/metal/kernels/entries.h"
#include "backends/metal/kernels/named_kernels.h"

namespace traingraph::metal {
namespace {

// What fresh kernels of an encoding are made with.
struct Masks {
  Ref<id<MTLDevice>> gpu;
  float keep;
  MTLSize strides;
  ir::ValueId seed;  // written by the host alone

  Masks(const ir::Node& node, Device& device)
      : gpu(device.objects().device),
        keep(float_of(node, "keep_probability")),
        strides{count_of(node, "mask_stride_in_pixels.0"),
                count_of(node, "mask_stride_in_pixels.1"),
                count_of(node, "mask_stride_in_pixels.2")},
        seed(node.inputs.back()) {}

  template <class K>
  Ref<K*> fresh(Pointers pointers, const Encoding& encoding) const {
    std::uint64_t number = 0;
    encoding.device().read_written(&number, pointers[seed], sizeof number);
    return Ref<K*>::own([[K alloc] initWithDevice:gpu.get()
                                  keepProbability:keep
                                             seed:number
                               maskStrideInPixels:strides]);
  }

  // The forward kernel with that seed, and the states that it fills.
  MPSStateBatch* encode_forward(Pointers pointers, Encoding& encoding, MPSImageBatch* sources,
                                MPSImageBatch* results) const {
    const auto kernel = fresh<MPSCNNDropout>(pointers, encoding);
    MPSStateBatch* states =
        held([kernel.get() temporaryResultStateBatchForCommandBuffer:command_buffer(encoding)
                                                         sourceImage:sources
                                                        sourceStates:nil
                                                    destinationImage:results],
             kernel.get());
    [kernel.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                sourceImages:sources
                           destinationStates:states
                           destinationImages:results];
    return states;
  }
};

// x, the step, the seed → y
std::unique_ptr<Kernel> make_dropout(const ir::Graph& graph, const ir::Node& node, Device& device) {
  return std::make_unique<ImageKernel>(
      graph, device, ImageOperands{.sources = {{node.inputs[0]}}, .results = {node.outputs[0]}},
      [masks = Masks(node, device)](const Images& images, Pointers pointers, Encoding& encoding) {
        end_reads(masks.encode_forward(pointers, encoding, images.source(0), images.result(0)));
      });
}

// dy, x, the step, the seed → dx. Constants of the recording: images that were encoded together,
// the first of these among them. Masks do not depend on what is masked, so the states are filled
// over images of zeros. One state may stand for all images, by their places, so that the gradient
// is encoded for all of them too.
std::unique_ptr<Kernel> make_dropout_gradient(const ir::Graph& graph, const ir::Node& node,
                                              Device& device) {
  Shape all = graph.type(node.inputs[0]).shape;
  const NSRange own{count_of(node, "constant.1"), static_cast<NSUInteger>(all[0])};
  all[0] = static_cast<std::int64_t>(number_of(node, "constant.0"));
  return std::make_unique<ImageKernel>(
      graph, device,
      ImageOperands{.sources = {{node.inputs[0]}, {node.inputs[1]}}, .results = {node.outputs[0]}},
      [masks = Masks(node, device), own, zeros = blank_images(device, all),
       result = ImagesAt(device, all)](const Images& images, Pointers pointers,
                                       Encoding& encoding) {
        // Nobody reads the result of the forward kernel, nor that for images that are not here.
        MPSImageBatch* y = result.make(encoding, 1);
        MPSStateBatch* states = masks.encode_forward(pointers, encoding, zeros.get(), y);
        const auto among = [own](MPSImageBatch* all, MPSImageBatch* here) {
          NSMutableArray<MPSImage*>* images = [NSMutableArray arrayWithCapacity:[all count]];
          for (NSUInteger k = 0; k < [all count]; ++k) {
            const bool is_here = k >= own.location && k < own.location + own.length;
            [images addObject:[is_here ? here : all objectAtIndex:is_here ? k - own.location : k]];
          }
          return images;
        };
        const auto kernel = masks.fresh<MPSCNNDropoutGradient>(pointers, encoding);
        [kernel.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                 sourceGradients:among(zeros.get(), images.source(0))
                                    sourceImages:among(zeros.get(), images.source(1))
                                  gradientStates:states
                            destinationGradients:among(y, images.result(0))];
        end_reads(states);
        drop(y);
      });
}

// Goes by the extents of an image alone, which both kernels share: neither is encoded by name
// without the other. A mask that was given is one more image.
template <std::size_t kSources>
std::string refuses(const ir::Graph& graph, const ir::Node& node) {
  if (node.inputs.size() > kSources && graph.type(node.inputs[kSources]).shape.size() == 4) {
    return "a mask that was given";
  }
  return refused_images(graph, std::vector{node.inputs[0]});
}

// One name for both: no comparison with ops tells whether masks are a function of seed and place.
std::optional<std::string> with_its_masks(const ir::Node&) { return "MPSCNNDropout"; }

}  // namespace

std::vector<NamedKernel> named_dropout() {
  return {
      {"MPSCNNDropout", refuses<1>, make_dropout, with_its_masks},
      {"MPSCNNDropoutGradient", refuses<2>, make_dropout_gradient, with_its_masks},
  };
}

}  // namespace traingraph::metal
