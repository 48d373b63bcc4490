// Normalization of each image by itself: MPSCNNInstanceNormalization, MPSCNNGroupNormalization and
// their gradients. The state between them is temporary and belongs to one op, because forward and
// gradient kernel may be encoded in different runs: the gradient encodes the forward kernel again.
#include <bit>

#include "backends/metal/data_source.h"
#include "backends/metal/gamma_and_beta.h"
#include "backends/metal/mps_entries.h"
#include "backends/metal/named_kernels.h"

// What a kernel asks when it is made; gamma and beta come by reloads.
@interface TraingraphImageNormSource : TraingraphDataSource <MPSCNNInstanceNormalizationDataSource,
                                                             MPSCNNGroupNormalizationDataSource> {
 @public
  NSUInteger channels_;
  NSUInteger groups_;
  float* gamma_;  // of `channels_` numbers each, which outlive this
  float* beta_;
}
@end

@implementation TraingraphImageNormSource
- (NSUInteger)numberOfFeatureChannels {
  return channels_;
}
- (NSUInteger)numberOfGroups {
  return groups_;
}
- (void)setNumberOfGroups:(NSUInteger)groups {
  groups_ = groups;
}
- (float*)gamma {
  return gamma_;
}
- (float*)beta {
  return beta_;
}
- (id)copyWithZone:(NSZone*)zone {
  TraingraphImageNormSource* copy = [[[self class] allocWithZone:zone] init];
  copy->channels_ = channels_;
  copy->groups_ = groups_;
  copy->gamma_ = gamma_;
  copy->beta_ = beta_;
  return copy;
}
@end

namespace traingraph::metal {
namespace {

// Constants of the recording: groups, and the bits of epsilon.
float epsilon_of(const ir::Node& node) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(number_of(node, "constant.1")));
}

// The forward kernel, whose gamma and beta are those of the run.
template <class K>
class NormBase : public ImageKernel {
 public:
  NormBase(const ir::Graph& graph, const ir::Node& node, Device& device, ImageOperands images)
      : ImageKernel(graph, device, std::move(images)),
        in_(node.inputs),
        out_(node.outputs),
        parameters_(device, graph.type(node.inputs[0]).shape[1]) {
    const Pool pool;
    source_ = Ref<TraingraphImageNormSource*>::own([[TraingraphImageNormSource alloc] init]);
    source_.get()->channels_ = static_cast<NSUInteger>(graph.type(node.inputs[0]).shape[1]);
    source_.get()->groups_ = count_of(node, "constant.0");
    source_.get()->gamma_ = parameters_.gamma();
    source_.get()->beta_ = parameters_.beta();
    forward_ = Ref<K*>::own([[K alloc] initWithDevice:device.objects().device.get()
                                           dataSource:source_.get()]);
    [forward_.get() setEpsilon:epsilon_of(node)];
  }

 protected:
  std::vector<ir::ValueId> in_, out_;
  GammaAndBeta parameters_;
  Ref<TraingraphImageNormSource*> source_;
  Ref<K*> forward_;
};

// x, gamma, beta → y
template <class K>
class Normalization final : public NormBase<K> {
 public:
  Normalization(const ir::Graph& graph, const ir::Node& node, Device& device)
      : NormBase<K>(graph, node, device,
                    {.sources = {{node.inputs[0]}}, .results = {node.outputs[0]}}) {}

 private:
  void encode_images(const Images& images, Pointers pointers, Encoding& encoding) override {
    this->parameters_.reload(encoding, this->forward_.get(), pointers[this->in_[1]],
                             pointers[this->in_[2]]);
    [this->forward_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                        sourceImages:images.source(0)
                                   destinationImages:images.result(0)];
  }
};

// dy, x, gamma → dgamma, dbeta of each image, dx
template <class K, class G, class State>
class NormalizationGradient final : public NormBase<K> {
 public:
  NormalizationGradient(const ir::Graph& graph, const ir::Node& node, Device& device)
      : NormBase<K>(
            graph, node, device,
            {.sources = {{node.inputs[0]}, {node.inputs[1], 2}}, .results = {node.outputs.back()}}),
        forward_result_(device, graph.type(node.inputs[1]).shape),
        gradient_(Ref<G*>::own([[G alloc] initWithDevice:device.objects().device.get()])) {}

 private:
  void encode_images(const Images& images, Pointers pointers, Encoding& encoding) override {
    // Beta does not matter to the gradient, so gamma stands in for it.
    const std::byte* gamma = pointers[this->in_[2]];
    this->parameters_.reload(encoding, this->forward_.get(), gamma, gamma);
    // The result of the forward kernel is not wanted, so nobody reads it.
    MPSImageBatch* y = forward_result_.make(encoding, 1);
    MPSStateBatch* states =
        [this->forward_.get() temporaryResultStateBatchForCommandBuffer:command_buffer(encoding)
                                                            sourceImage:images.source(1)
                                                           sourceStates:nil
                                                       destinationImage:y];
    for (State* state in states) [state setReadCount:2];
    [this->forward_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                        sourceImages:images.source(1)
                                   destinationStates:states
                                   destinationImages:y];
    for (MPSImage* image in y) [(MPSTemporaryImage*)image setReadCount:0];
    [gradient_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                sourceGradients:images.source(0)
                                   sourceImages:images.source(1)
                                 gradientStates:states
                           destinationGradients:images.result(0)];
    std::size_t result = 0;
    for (State* state in states) {
      this->parameters_.write_sums(encoding, [state gradientForGamma], [state gradientForBeta],
                                   pointers[this->out_[result]], pointers[this->out_[result + 1]]);
      [state setReadCount:[state readCount] - 1];
      result += 2;
    }
  }

  ImagesAt forward_result_;
  Ref<G*> gradient_;
};

// Apple's kernels have a state for each image.
std::string refuses_gradient(const ir::Graph& graph, const ir::Node& node) {
  const auto images = static_cast<std::size_t>(graph.type(node.inputs[0]).shape[0]);
  if (node.outputs.size() != 2 * images + 1) return "a state of several images";
  return refused_images(graph, node, 2, {node.outputs.back()});
}

}  // namespace

std::vector<NamedKernel> named_image_normalizations() {
  using Instance = MPSCNNInstanceNormalization;
  using Group = MPSCNNGroupNormalization;
  return {
      {"MPSCNNInstanceNormalization", refuses_one_source, make<Normalization<Instance>>},
      {"MPSCNNInstanceNormalizationGradient", refuses_gradient,
       make<NormalizationGradient<Instance, MPSCNNInstanceNormalizationGradient,
                                  MPSCNNInstanceNormalizationGradientState>>},
      {"MPSCNNGroupNormalization", refuses_one_source, make<Normalization<Group>>},
      {"MPSCNNGroupNormalizationGradient", refuses_gradient,
       make<NormalizationGradient<Group, MPSCNNGroupNormalizationGradient,
                                  MPSCNNGroupNormalizationGradientState>>},
  };
}

}  // namespace traingraph::metal
