// MPSCNNLoss, whose labels are an object over images of their own, made once; MPSNNForwardLoss and
// MPSNNLossGradient, whose labels are images like others.
#include "backends/metal/mps_entries.h"
#include "backends/metal/named_kernels.h"

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
class Loss final : public ImageKernel {
 public:
  Loss(const ir::Graph& graph, const ir::Node& node, Device& device)
      : ImageKernel(graph, device, {.sources = {{node.inputs[0]}}, .results = {node.outputs[0]}}),
        truth_value_(node.inputs[1]),
        loss_value_(node.outputs[1]),
        truth_(device, graph.type(truth_value_).shape),
        loss_(device, graph.type(loss_value_).shape),
        truth_images_(permanent_images(device, graph.type(truth_value_).shape)) {
    const Pool pool;
    id<MTLDevice> gpu = device.objects().device.get();
    if (node.inputs.size() > 2) {
      weights_value_ = node.inputs[2];
      const Shape& shape = graph.type(weights_value_).shape;
      weights_.emplace(device, shape);
      weights_images_ = permanent_images(device, shape);
    }
    kernel_ = Ref<MPSCNNLoss*>::own([[MPSCNNLoss alloc] initWithDevice:gpu
                                                        lossDescriptor:descriptor_of(node)]);
    const Shape& loss = graph.type(loss_value_).shape;
    const auto extent = [&loss](std::size_t axis) { return static_cast<NSUInteger>(loss[axis]); };
    NSMutableArray* labels = [NSMutableArray arrayWithCapacity:extent(0)];
    NSMutableArray* losses = [NSMutableArray arrayWithCapacity:extent(0)];
    for (NSUInteger row = 0; row < extent(0); ++row) {
      const auto one = Ref<MPSCNNLossLabels*>::own([[MPSCNNLossLabels alloc]
          initWithDevice:gpu
           lossImageSize:MTLSizeMake(extent(3), extent(2), extent(1))
             labelsImage:[truth_images_.get() objectAtIndex:row]
            weightsImage:[weights_images_.get() objectAtIndex:row]]);
      [labels addObject:one.get()];
      [losses addObject:[one.get() lossImage]];
    }
    labels_ = Ref<MPSCNNLossLabelsBatch*>::keep(labels);
    loss_images_ = Ref<MPSImageBatch*>::keep(losses);
  }

 private:
  void encode_images(const Images& images, Pointers pointers, Encoding& encoding) override {
    truth_.copy(encoding, pointers[truth_value_], truth_images_.get());
    if (weights_) weights_->copy(encoding, pointers[weights_value_], weights_images_.get());
    [kernel_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                 sourceImages:images.source(0)
                                       labels:labels_.get()
                            destinationImages:images.result(0)];
    loss_.write(encoding, loss_images_.get(), pointers[loss_value_]);
  }

  ir::ValueId truth_value_, loss_value_, weights_value_ = ir::kNone;
  ImagesAt truth_, loss_;
  std::optional<ImagesAt> weights_;
  Ref<MPSImageBatch*> truth_images_, weights_images_, loss_images_;
  Ref<MPSCNNLossLabelsBatch*> labels_;
  Ref<MPSCNNLoss*> kernel_;
};

// prediction, labels [, weights] → loss
class ForwardLoss final : public ImageKernel {
 public:
  ForwardLoss(const ir::Graph& graph, const ir::Node& node, Device& device)
      : ImageKernel(graph, device, ImageOperands::all_of(node)), weighted_(node.inputs.size() > 2) {
    const Pool pool;
    kernel_ = Ref<MPSNNForwardLoss*>::own([[MPSNNForwardLoss alloc]
        initWithDevice:device.objects().device.get()
        lossDescriptor:descriptor_of(node)]);
  }

 private:
  void encode_images(const Images& images, Pointers, Encoding& encoding) override {
    [kernel_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                 sourceImages:images.source(0)
                                       labels:images.source(1)
                                      weights:weighted_ ? images.source(2) : nil
                            destinationStates:nil
                            destinationImages:images.result(0)];
  }
  bool weighted_;
  Ref<MPSNNForwardLoss*> kernel_;
};

// dloss, prediction, labels [, weights] → gradient by the prediction, or by the labels
class LossGradient final : public ImageKernel {
 public:
  LossGradient(const ir::Graph& graph, const ir::Node& node, Device& device)
      : ImageKernel(graph, device, ImageOperands::all_of(node)), weighted_(node.inputs.size() > 3) {
    const Pool pool;
    kernel_ = Ref<MPSNNLossGradient*>::own([[MPSNNLossGradient alloc]
        initWithDevice:device.objects().device.get()
        lossDescriptor:descriptor_of(node)]);
    [kernel_.get() setComputeLabelGradients:number_of(node, "compute_label_gradients") != 0];
  }

 private:
  void encode_images(const Images& images, Pointers, Encoding& encoding) override {
    [kernel_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                              sourceGradients:images.source(0)
                                 sourceImages:images.source(1)
                                       labels:images.source(2)
                                      weights:weighted_ ? images.source(3) : nil
                                 sourceStates:nil
                         destinationGradients:images.result(0)];
  }
  bool weighted_;
  Ref<MPSNNLossGradient*> kernel_;
};

std::string refuses(const ir::Graph& graph, const ir::Node& node) {
  return refused_images(graph, node, node.inputs.size());
}

// Apple's text prints another gradient than that of the loss, or it is the text that is asked for;
// or what it prints is NaN of numbers that the op knows: 0 log 0.
bool is_printed_otherwise(const ir::Node& node) {
  switch (static_cast<MPSCNNLossType>(number_of(node, "loss_descriptor.loss_type"))) {
    case MPSCNNLossTypeHinge:
    case MPSCNNLossTypeHuber:
    case MPSCNNLossTypeKullbackLeiblerDivergence:
    case MPSCNNLossTypeCategoricalCrossEntropy:
      return true;
    case MPSCNNLossTypeLog:
      if (number_of(node, "loss_descriptor.epsilon") == 0) return true;
      [[fallthrough]];
    default:
      return number_of(node, "header_formula") != 0;
  }
}

}  // namespace

std::vector<NamedKernel> named_losses() {
  return {
      {"MPSCNNLoss", refuses, make<Loss>, is_printed_otherwise},
      {"MPSNNForwardLoss", refuses, make<ForwardLoss>, is_printed_otherwise},
      {"MPSNNInitialGradient", refuses_one_source, make_forward<plain<MPSNNInitialGradient>>},
      {"MPSNNLossGradient", refuses, make<LossGradient>, is_printed_otherwise},
  };
}

}  // namespace traingraph::metal
