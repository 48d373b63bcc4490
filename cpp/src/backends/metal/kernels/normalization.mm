// Normalization over the batch, for ops, and of each image by itself, which traingraph.mps encodes
// by name: MPSCNNBatchNormalization…, MPSCNNInstanceNormalization and MPSCNNGroupNormalization,
// with their gradients. The state between forward and gradient kernel is temporary and belongs to
// one op, because both may be encoded in different runs: the gradient encodes once more what fills
// it.
#include <bit>

#include "backends/metal/images/data_source.h"
#include "backends/metal/images/gamma_and_beta.h"
#include "backends/metal/images/states.h"
#include "backends/metal/kernels/entries.h"
#include "backends/metal/kernels/named_kernels.h"
#include "backends/metal/shaders/shader_kernel.h"

// What a kernel asks when it is made; gamma and beta come by reloads.
@interface TraingraphNormalizationSource
    : TraingraphDataSource <MPSCNNBatchNormalizationDataSource,
                            MPSCNNInstanceNormalizationDataSource,
                            MPSCNNGroupNormalizationDataSource> {
 @public
  NSUInteger channels_;
  NSUInteger groups_;  // of group normalization
  float* gamma_;       // of `channels_` numbers each, all of which outlive this
  float* beta_;
  float* mean_;  // of batch normalization, and the variance
  float* variance_;
  float epsilon_;
}
@end

@implementation TraingraphNormalizationSource
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
  TraingraphNormalizationSource* copy = [[[self class] allocWithZone:zone] init];
  copy->channels_ = channels_;
  copy->groups_ = groups_;
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

Ref<TraingraphNormalizationSource*> source_of(const GammaAndBeta& parameters, std::int64_t channels,
                                              float epsilon) {
  auto source =
      Ref<TraingraphNormalizationSource*>::own([[TraingraphNormalizationSource alloc] init]);
  source.get()->channels_ = static_cast<NSUInteger>(channels);
  source.get()->gamma_ = parameters.gamma();
  source.get()->beta_ = parameters.beta();
  source.get()->epsilon_ = epsilon;
  return source;
}

// --- over the batch ------------------------------------------------------------------------------

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const Support support = supports_float(graph, node);
  if (!support.yes) return support;
  const Shape& shape = graph.type(node.outputs[0]).shape;
  const std::string reason = no_images(shape);
  if (!reason.empty()) return Support::no("mps: " + reason);
  // The gradient reads statistics as exact as the hand-written shader's.
  if (element_count(shape) <= 2 * shape[1]) {
    return Support::no("mps: batch normalization where two values cancel");
  }
  return {};
}

// What both ops share: the normalization, whose gamma and beta are those of the run.
struct BatchNormalization {
  std::vector<ir::ValueId> in, out;
  std::int64_t channels;
  shader::Statistics numbers;
  const Shader& results;
  GammaAndBeta parameters;
  std::shared_ptr<std::byte> mean, variance;
  Ref<TraingraphNormalizationSource*> source;
  Ref<MPSCNNBatchNormalization*> kernel;
  Ref<MPSCNNBatchNormalizationStatistics*> of_batch;

  BatchNormalization(const ir::Graph& graph, const ir::Node& node, Device& device)
      : in(node.inputs),
        out(node.outputs),
        channels(graph.type(node.outputs[0]).shape[1]),
        numbers{static_cast<float>(std::get<ir::BatchNormAttributes>(node.attributes).epsilon)},
        results(device.shader("batch_norm_results")),
        parameters(device, channels) {
    const Pool pool;
    id<MTLDevice> gpu = device.objects().device.get();
    const auto bytes = static_cast<std::size_t>(channels) * sizeof(float);
    for (auto* memory : {&mean, &variance}) *memory = device.keep(bytes);
    source = source_of(parameters, channels, numbers.epsilon);
    source.get()->mean_ = reinterpret_cast<float*>(mean.get());
    source.get()->variance_ = reinterpret_cast<float*>(variance.get());
    kernel = Ref<MPSCNNBatchNormalization*>::own(
        [[MPSCNNBatchNormalization alloc] initWithDevice:gpu dataSource:source.get()]);
    [kernel.get() setEpsilon:numbers.epsilon];
    of_batch = Ref<MPSCNNBatchNormalizationStatistics*>::own(
        [[MPSCNNBatchNormalizationStatistics alloc] initWithDevice:gpu]);
  }

  // A state with the statistics of the images, which are read once; end_reads() ends it.
  MPSCNNBatchNormalizationState* statistics(Encoding& encoding, MPSImageBatch* images) const {
    MPSCNNBatchNormalizationState* state =
        [kernel.get() temporaryResultStateForCommandBuffer:command_buffer(encoding)
                                               sourceImage:[images objectAtIndex:0]
                                              sourceStates:nil
                                          destinationImage:[images objectAtIndex:0]];
    held(one_state(state), kernel.get());
    [of_batch.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                  sourceImages:images
                       batchNormalizationState:state];
    return state;
  }
};

// x, gamma, beta → y, mean, inverse deviation, biased variance
std::unique_ptr<Kernel> make_batch_norm(const ir::Graph& graph, const ir::Node& node,
                                        Device& device) {
  return std::make_unique<ImageKernel>(
      graph, device, ImageOperands{.sources = {{node.inputs[0], 2}}, .results = {node.outputs[0]}},
      [n = BatchNormalization(graph, node, device)](const Images& images, Pointers pointers,
                                                    Encoding& encoding) {
        n.parameters.reload(encoding, n.kernel.get(), pointers[n.in[1]], pointers[n.in[2]]);
        MPSImageBatch* x = images.source(0);
        MPSCNNBatchNormalizationState* state = n.statistics(encoding, x);
        [n.kernel.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                      sourceImages:x
                           batchNormalizationState:state
                                 destinationImages:images.result(0)];
        const Device& own = encoding.device();
        run(encoding, n.results,
            {{[state mean], 0},
             {[state variance], 0},
             place(own, pointers[n.out[1]]),
             place(own, pointers[n.out[2]]),
             place(own, pointers[n.out[3]])},
            &n.numbers, sizeof n.numbers, n.channels);
        end_reads(one_state(state));
      });
}

// dy, x, mean, inverse deviation, gamma → dx, dgamma, dbeta, all overwritten
std::unique_ptr<Kernel> make_batch_norm_gradient(const ir::Graph& graph, const ir::Node& node,
                                                 Device& device) {
  const Pool pool;
  id<MTLDevice> gpu = device.objects().device.get();
  const auto sums = Ref<MPSCNNBatchNormalizationStatisticsGradient*>::own(
      [[MPSCNNBatchNormalizationStatisticsGradient alloc] initWithDevice:gpu
                                                   fusedNeuronDescriptor:nil]);
  const auto gradient = Ref<MPSCNNBatchNormalizationGradient*>::own(
      [[MPSCNNBatchNormalizationGradient alloc] initWithDevice:gpu fusedNeuronDescriptor:nil]);
  return std::make_unique<ImageKernel>(
      graph, device,
      ImageOperands{.sources = {{node.inputs[0], 2}, {node.inputs[1], 3}},
                    .results = {node.outputs[0]}},
      [n = BatchNormalization(graph, node, device), sums, gradient](
          const Images& images, Pointers pointers, Encoding& encoding) {
        // Beta does not matter to the gradient, so gamma stands in for it.
        const std::byte* gamma = pointers[n.in[4]];
        n.parameters.reload(encoding, n.kernel.get(), gamma, gamma);
        MPSImageBatch *dy = images.source(0), *x = images.source(1);
        MPSCNNBatchNormalizationState* state = n.statistics(encoding, x);
        [sums.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                               sourceGradients:dy
                                  sourceImages:x
                       batchNormalizationState:state];
        [gradient.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                   sourceGradients:dy
                                      sourceImages:x
                           batchNormalizationState:state
                              destinationGradients:images.result(0)];
        n.parameters.write_sums(encoding, [state gradientForGamma], [state gradientForBeta],
                                pointers[n.out[1]], pointers[n.out[2]]);
        end_reads(one_state(state));
      });
}

// --- of each image -------------------------------------------------------------------------------

// Constants of the recording: groups, and the bits of epsilon.
float epsilon_of(const ir::Node& node) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(number_of(node, "constant.1")));
}

// The forward kernel, whose gamma and beta are those of the run.
template <class K>
struct ImageNormalization {
  GammaAndBeta parameters;
  Ref<TraingraphNormalizationSource*> source;
  Ref<K*> kernel;

  ImageNormalization(const ir::Graph& graph, const ir::Node& node, Device& device)
      : parameters(device, graph.type(node.inputs[0]).shape[1]) {
    const Pool pool;
    source = source_of(parameters, graph.type(node.inputs[0]).shape[1], epsilon_of(node));
    source.get()->groups_ = count_of(node, "constant.0");
    kernel = Ref<K*>::own([[K alloc] initWithDevice:device.objects().device.get()
                                         dataSource:source.get()]);
    [kernel.get() setEpsilon:epsilon_of(node)];
  }
};

// x, gamma, beta → y
template <class K>
std::unique_ptr<Kernel> make_image_norm(const ir::Graph& graph, const ir::Node& node,
                                        Device& device) {
  return std::make_unique<ImageKernel>(
      graph, device, ImageOperands{.sources = {{node.inputs[0]}}, .results = {node.outputs[0]}},
      [n = ImageNormalization<K>(graph, node, device), gamma = node.inputs[1],
       beta = node.inputs[2]](const Images& images, Pointers pointers, Encoding& encoding) {
        n.parameters.reload(encoding, n.kernel.get(), pointers[gamma], pointers[beta]);
        [n.kernel.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                      sourceImages:images.source(0)
                                 destinationImages:images.result(0)];
      });
}

// dy, x, gamma → dgamma, dbeta of each image, dx
template <class K, class G, class State>
std::unique_ptr<Kernel> make_image_norm_gradient(const ir::Graph& graph, const ir::Node& node,
                                                 Device& device) {
  const auto gradient = Ref<G*>::own([[G alloc] initWithDevice:device.objects().device.get()]);
  return std::make_unique<ImageKernel>(
      graph, device,
      ImageOperands{.sources = {{node.inputs[0]}, {node.inputs[1], 2}},
                    .results = {node.outputs.back()}},
      [n = ImageNormalization<K>(graph, node, device), gradient, gamma_value = node.inputs[2],
       sums = node.outputs, result = ImagesAt(device, graph.type(node.inputs[1]).shape)](
          const Images& images, Pointers pointers, Encoding& encoding) {
        // Beta does not matter to the gradient, so gamma stands in for it.
        const std::byte* gamma = pointers[gamma_value];
        n.parameters.reload(encoding, n.kernel.get(), gamma, gamma);
        // The result of the forward kernel is not wanted, so nobody reads it.
        MPSImageBatch *x = images.source(1), *y = result.make(encoding, 1);
        MPSStateBatch* states =
            held([n.kernel.get() temporaryResultStateBatchForCommandBuffer:command_buffer(encoding)
                                                               sourceImage:x
                                                              sourceStates:nil
                                                          destinationImage:y],
                 n.kernel.get());
        [n.kernel.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                      sourceImages:x
                                 destinationStates:states
                                 destinationImages:y];
        drop(y);
        [gradient.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                   sourceGradients:images.source(0)
                                      sourceImages:x
                                    gradientStates:states
                              destinationGradients:images.result(0)];
        std::size_t k = 0;
        for (State* state in states) {
          n.parameters.write_sums(encoding, [state gradientForGamma], [state gradientForBeta],
                                  pointers[sums[k]], pointers[sums[k + 1]]);
          k += 2;
        }
        end_reads(states);
      });
}

// Apple's kernels have a state for each image.
std::string refuses_gradient(const ir::Graph& graph, const ir::Node& node) {
  const auto images = static_cast<std::size_t>(graph.type(node.inputs[0]).shape[0]);
  if (node.outputs.size() != 2 * images + 1) return "a state of several images";
  return refused_images(graph, node, 2, {node.outputs.back()});
}

}  // namespace

std::vector<KernelEntry> mps_normalization_entries() {
  return {{ir::Op::batch_norm, supports, make_batch_norm},
          {ir::Op::batch_norm_gradient, supports, make_batch_norm_gradient}};
}

std::vector<NamedKernel> named_image_normalizations() {
  using Instance = MPSCNNInstanceNormalization;
  using Group = MPSCNNGroupNormalization;
  return {
      {"MPSCNNInstanceNormalization", refuses_one_source, make_image_norm<Instance>},
      {"MPSCNNInstanceNormalizationGradient", refuses_gradient,
       make_image_norm_gradient<Instance, MPSCNNInstanceNormalizationGradient,
                                MPSCNNInstanceNormalizationGradientState>},
      {"MPSCNNGroupNormalization", refuses_one_source, make_image_norm<Group>},
      {"MPSCNNGroupNormalizationGradient", refuses_gradient,
       make_image_norm_gradient<Group, MPSCNNGroupNormalizationGradient,
                                MPSCNNGroupNormalizationGradientState>},
  };
}

}  // namespace traingraph::metal
