// Batch normalization by Metal Performance Shaders: statistics of the batch, then the
// normalization, or then sums of the gradient, then the gradient. The state between them is
// temporary and belongs to one op, because forward and gradient pass may be different runs: the
// gradient makes the statistics once more.
#include "backends/metal/data_source.h"
#include "backends/metal/gamma_and_beta.h"
#include "backends/metal/image_kernel.h"
#include "backends/metal/mps_entries.h"
#include "backends/metal/shader_kernel.h"

// What a kernel asks when it is made; gamma and beta come by reloads.
@interface TraingraphBatchNormSource : TraingraphDataSource <MPSCNNBatchNormalizationDataSource> {
 @public
  NSUInteger channels_;
  float* gamma_;  // of `channels_` numbers each, all of which outlive this
  float* beta_;
  float* mean_;
  float* variance_;
  float epsilon_;
}
@end

@implementation TraingraphBatchNormSource
- (NSUInteger)numberOfFeatureChannels {
  return channels_;
}
- (float*)gamma {
  return gamma_;
}
- (float*)beta {
  return beta_;
}
- (float*)mean {
  return mean_;
}
- (float*)variance {
  return variance_;
}
- (float)epsilon {
  return epsilon_;
}
- (id)copyWithZone:(NSZone*)zone {
  TraingraphBatchNormSource* copy = [[[self class] allocWithZone:zone] init];
  copy->channels_ = channels_;
  copy->gamma_ = gamma_;
  copy->beta_ = beta_;
  copy->mean_ = mean_;
  copy->variance_ = variance_;
  copy->epsilon_ = epsilon_;
  return copy;
}
@end

namespace traingraph::metal {
namespace {

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const Support support = supports_float(graph, node);
  if (!support.yes) return support;
  const Shape& shape = graph.type(node.outputs[0]).shape;
  const std::string reason = no_images(shape);
  if (!reason.empty()) return Support::no("mps: " + reason);
  // The gradient reads statistics as exact as the own shader's.
  if (element_count(shape) <= 2 * shape[1]) {
    return Support::no("mps: batch normalization where two values cancel");
  }
  return {};
}

// What both ops share: the normalization, whose gamma and beta are those of the run.
class BatchNormBase : public ImageKernel {
 public:
  BatchNormBase(const ir::Graph& graph, const ir::Node& node, Device& device, ImageOperands images)
      : ImageKernel(graph, device, std::move(images)),
        in_(node.inputs),
        out_(node.outputs),
        channels_(graph.type(node.outputs[0]).shape[1]),
        statistics_{static_cast<float>(std::get<ir::BatchNormAttributes>(node.attributes).epsilon)},
        results_(device.shader("batch_norm_results")),
        parameters_(device, channels_) {
    const Pool pool;
    id<MTLDevice> gpu = device.objects().device.get();
    const auto bytes = static_cast<std::size_t>(channels_) * sizeof(float);
    for (auto* memory : {&mean_, &variance_}) *memory = device.keep(bytes);
    source_ = Ref<TraingraphBatchNormSource*>::own([[TraingraphBatchNormSource alloc] init]);
    TraingraphBatchNormSource* source = source_.get();
    source->channels_ = static_cast<NSUInteger>(channels_);
    source->gamma_ = parameters_.gamma();
    source->beta_ = parameters_.beta();
    source->mean_ = reinterpret_cast<float*>(mean_.get());
    source->variance_ = reinterpret_cast<float*>(variance_.get());
    source->epsilon_ = statistics_.epsilon;
    normalization_ = Ref<MPSCNNBatchNormalization*>::own(
        [[MPSCNNBatchNormalization alloc] initWithDevice:gpu dataSource:source]);
    [normalization_.get() setEpsilon:statistics_.epsilon];
    of_batch_ = Ref<MPSCNNBatchNormalizationStatistics*>::own(
        [[MPSCNNBatchNormalizationStatistics alloc] initWithDevice:gpu]);
  }

 protected:
  // A state with the statistics of the images, which are read once; it will be read so many times
  // more.
  MPSCNNBatchNormalizationState* statistics(Encoding& encoding, MPSImageBatch* images,
                                            NSUInteger reads) const {
    MPSCNNBatchNormalizationState* state =
        [normalization_.get() temporaryResultStateForCommandBuffer:command_buffer(encoding)
                                                       sourceImage:[images objectAtIndex:0]
                                                      sourceStates:nil
                                                  destinationImage:[images objectAtIndex:0]];
    [state setReadCount:1 + reads];
    [of_batch_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                   sourceImages:images
                        batchNormalizationState:state];
    return state;
  }

  // After an own shader has read the state.
  static void was_read(MPSCNNBatchNormalizationState* state) {
    [state setReadCount:[state readCount] - 1];
  }

  std::vector<ir::ValueId> in_, out_;
  std::int64_t channels_;
  shader::Statistics statistics_;
  const Shader& results_;
  GammaAndBeta parameters_;
  std::shared_ptr<std::byte> mean_, variance_;
  Ref<TraingraphBatchNormSource*> source_;
  Ref<MPSCNNBatchNormalization*> normalization_;
  Ref<MPSCNNBatchNormalizationStatistics*> of_batch_;
};

// x, gamma, beta → y, mean, inverse deviation, biased variance
class BatchNorm final : public BatchNormBase {
 public:
  BatchNorm(const ir::Graph& graph, const ir::Node& node, Device& device)
      : BatchNormBase(graph, node, device,
                      {.sources = {{node.inputs[0], 2}}, .results = {node.outputs[0]}}) {}

 private:
  void encode_images(const Images& images, Pointers pointers, Encoding& encoding) override {
    parameters_.reload(encoding, normalization_.get(), pointers[in_[1]], pointers[in_[2]]);
    MPSImageBatch* x = images.source(0);
    MPSCNNBatchNormalizationState* state = statistics(encoding, x, 2);
    [normalization_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                        sourceImages:x
                             batchNormalizationState:state
                                   destinationImages:images.result(0)];
    const Device& device = encoding.device();
    run(encoding, results_,
        {{[state mean], 0},
         {[state variance], 0},
         place(device, pointers[out_[1]]),
         place(device, pointers[out_[2]]),
         place(device, pointers[out_[3]])},
        &statistics_, sizeof statistics_, channels_);
    was_read(state);
  }
};

// dy, x, mean, inverse deviation, gamma → dx, dgamma, dbeta, all overwritten
class BatchNormGradient final : public BatchNormBase {
 public:
  BatchNormGradient(const ir::Graph& graph, const ir::Node& node, Device& device)
      : BatchNormBase(
            graph, node, device,
            {.sources = {{node.inputs[0], 2}, {node.inputs[1], 3}}, .results = {node.outputs[0]}}) {
    id<MTLDevice> gpu = device.objects().device.get();
    sums_ = Ref<MPSCNNBatchNormalizationStatisticsGradient*>::own(
        [[MPSCNNBatchNormalizationStatisticsGradient alloc] initWithDevice:gpu
                                                     fusedNeuronDescriptor:nil]);
    gradient_ = Ref<MPSCNNBatchNormalizationGradient*>::own(
        [[MPSCNNBatchNormalizationGradient alloc] initWithDevice:gpu fusedNeuronDescriptor:nil]);
  }

 private:
  void encode_images(const Images& images, Pointers pointers, Encoding& encoding) override {
    // Beta does not matter to the gradient, so gamma stands in for it.
    const std::byte* gamma = pointers[in_[4]];
    parameters_.reload(encoding, normalization_.get(), gamma, gamma);
    MPSImageBatch* dy = images.source(0);
    MPSImageBatch* x = images.source(1);
    MPSCNNBatchNormalizationState* state = statistics(encoding, x, 3);
    [sums_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                            sourceGradients:dy
                               sourceImages:x
                    batchNormalizationState:state];
    [gradient_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                sourceGradients:dy
                                   sourceImages:x
                        batchNormalizationState:state
                           destinationGradients:images.result(0)];
    parameters_.write_sums(encoding, [state gradientForGamma], [state gradientForBeta],
                           pointers[out_[1]], pointers[out_[2]]);
    was_read(state);
  }

  Ref<MPSCNNBatchNormalizationStatisticsGradient*> sums_;
  Ref<MPSCNNBatchNormalizationGradient*> gradient_;
};

}  // namespace

std::vector<KernelEntry> mps_batch_norm_entries() {
  return {{ir::Op::batch_norm, supports, make<BatchNorm>},
          {ir::Op::batch_norm_gradient, supports, make<BatchNormGradient>}};
}

}  // namespace traingraph::metal
