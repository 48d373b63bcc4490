// MPSCNNLoss, whose labels are an object over images of their own, made once; MPSNNForwardLoss and
// MPSNNLossGradient, whose labels are images like others.
#include "backends/metal/kernels/entries.h"
#include "backends/metal/kernels/named_kernels.h"

namespace traingraph::metal {
namespace {

MPSCNNLossDescriptor* descriptor_of(const ir::Node& node) {
  const auto number = [&node](const char* name) {
    return number_of(node, std::string("loss_descriptor.") + name);
  };
  MPSCNNLossDescriptor* descriptor = [MPSCNNLossDescriptor
      cnnLossDescriptorWithType:static_cast<MPSCNNLossType>(number("loss_type"))
                  reductionType:static_cast<MPSCNNReductionType>(number("reduction_type"))];
  [descriptor setReduceAcrossBatch:number("reduce_across_batch") != 0];
  [descriptor setWeight:static_cast<float>(number("weight"))];
  [descriptor setLabelSmoothing:static_cast<float>(number("label_smoothing"))];
  [descriptor setNumberOfClasses:static_cast<NSUInteger>(number("number_of_classes"))];
  [descriptor setEpsilon:static_cast<float>(number("epsilon"))];
  [descriptor setDelta:static_cast<float>(number("delta"))];
  return descriptor;
}

// prediction, labels [, weights] → gradient, loss
std::unique_ptr<Kernel> make_loss(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const Pool pool;
  id<MTLDevice> gpu = device.objects().device.get();
  // Memory, and permanent images of its shape.
  struct Operand {
    ir::ValueId value;
    ImagesAt at;
    Ref<MPSImageBatch*> images;
  };
  const auto operand = [&](ir::ValueId value) {
    const Shape& shape = graph.type(value).shape;
    return Operand{value, ImagesAt(device, shape), permanent_images(device, shape)};
  };
  std::vector<Operand> given;  // labels, weights
  for (std::size_t k = 1; k < node.inputs.size(); ++k) given.push_back(operand(node.inputs[k]));
  const auto kernel =
      Ref<MPSCNNLoss*>::own([[MPSCNNLoss alloc] initWithDevice:gpu
                                                lossDescriptor:descriptor_of(node)]);
  const Shape& loss = graph.type(node.outputs[1]).shape;
  const auto extent = [&loss](std::size_t axis) { return static_cast<NSUInteger>(loss[axis]); };
  NSMutableArray* labels = [NSMutableArray arrayWithCapacity:extent(0)];
  NSMutableArray* losses = [NSMutableArray arrayWithCapacity:extent(0)];
  for (NSUInteger row = 0; row < extent(0); ++row) {
    const auto one = Ref<MPSCNNLossLabels*>::own([[MPSCNNLossLabels alloc]
        initWithDevice:gpu
         lossImageSize:MTLSizeMake(extent(3), extent(2), extent(1))
           labelsImage:[given[0].images.get() objectAtIndex:row]
          weightsImage:given.size() > 1 ? [given[1].images.get() objectAtIndex:row] : nil]);
    [labels addObject:one.get()];
    [losses addObject:[one.get() lossImage]];
  }
  return std::make_unique<ImageKernel>(
      graph, device, ImageOperands{.sources = {{node.inputs[0]}}, .results = {node.outputs[0]}},
      [kernel, given, labels = Ref<MPSCNNLossLabelsBatch*>::keep(labels),
       result =
           Operand{node.outputs[1], ImagesAt(device, loss), Ref<MPSImageBatch*>::keep(losses)}](
          const Images& images, Pointers pointers, Encoding& encoding) mutable {
        for (Operand& one : given) one.at.copy(encoding, pointers[one.value], one.images.get());
        [kernel.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                    sourceImages:images.source(0)
                                          labels:labels.get()
                               destinationImages:images.result(0)];
        result.at.write(encoding, result.images.get(), pointers[result.value]);
      });
}

// prediction, labels [, weights] → loss
std::unique_ptr<Kernel> make_forward_loss(const ir::Graph& graph, const ir::Node& node,
                                          Device& device) {
  const Pool pool;
  const auto kernel = Ref<MPSNNForwardLoss*>::own([[MPSNNForwardLoss alloc]
      initWithDevice:device.objects().device.get()
      lossDescriptor:descriptor_of(node)]);
  const bool weighted = node.inputs.size() > 2;
  return std::make_unique<ImageKernel>(
      graph, device, ImageOperands::all_of(node),
      [kernel, weighted](const Images& images, Pointers, Encoding& encoding) {
        [kernel.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                    sourceImages:images.source(0)
                                          labels:images.source(1)
                                         weights:weighted ? images.source(2) : nil
                               destinationStates:nil
                               destinationImages:images.result(0)];
      });
}

// dloss, prediction, labels [, weights] → gradient by the prediction, or by the labels
std::unique_ptr<Kernel> make_loss_gradient(const ir::Graph& graph, const ir::Node& node,
                                           Device& device) {
  const Pool pool;
  const auto kernel = Ref<MPSNNLossGradient*>::own([[MPSNNLossGradient alloc]
      initWithDevice:device.objects().device.get()
      lossDescriptor:descriptor_of(node)]);
  [kernel.get() setComputeLabelGradients:number_of(node, "compute_label_gradients") != 0];
  const bool weighted = node.inputs.size() > 3;
  return std::make_unique<ImageKernel>(
      graph, device, ImageOperands::all_of(node),
      [kernel, weighted](const Images& images, Pointers, Encoding& encoding) {
        [kernel.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                 sourceGradients:images.source(0)
                                    sourceImages:images.source(1)
                                          labels:images.source(2)
                                         weights:weighted ? images.source(3) : nil
                                    sourceStates:nil
                            destinationGradients:images.result(0)];
      });
}

std::string refuses(const ir::Graph& graph, const ir::Node& node) {
  return refused_images(graph, node, node.inputs.size());
}

// Apple's text prints another gradient than that of the loss, or it is the text that is asked for;
// or what it prints is NaN of numbers that the op knows: 0 log 0.
std::optional<std::string> printed_otherwise(const ir::Node& node) {
  switch (static_cast<MPSCNNLossType>(number_of(node, "loss_descriptor.loss_type"))) {
    case MPSCNNLossTypeHinge:
      return form_of(node, " hinge");
    case MPSCNNLossTypeHuber:
      return form_of(node, " huber");
    case MPSCNNLossTypeKullbackLeiblerDivergence:
      return form_of(node, " kullback_leibler_divergence");
    case MPSCNNLossTypeCategoricalCrossEntropy:
      return form_of(node, " categorical_cross_entropy");
    case MPSCNNLossTypeLog:
      if (number_of(node, "loss_descriptor.epsilon") != 0) return {};
      return form_of(node, " log without epsilon");
    case MPSCNNLossTypeSoftMaxCrossEntropy:
      if (number_of(node, "header_formula") == 0) return {};
      return form_of(node, " soft_max_cross_entropy");
    default:
      return {};
  }
}

}  // namespace

std::vector<NamedKernel> named_losses() {
  return {
      {"MPSCNNLoss", refuses, make_loss, printed_otherwise},
      {"MPSNNForwardLoss", refuses, make_forward_loss, printed_otherwise},
      forward_row<MPSNNInitialGradient, plain<MPSNNInitialGradient>>(),
      {"MPSNNLossGradient", refuses, make_loss_gradient, printed_otherwise},
  };
}

}  // namespace traingraph::metal
