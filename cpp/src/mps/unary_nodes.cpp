#include <traingraph/mps/unary_nodes.h>

#include <type_traits>

#include "mps/node_steps.h"
#include "mps/node_support.h"

namespace traingraph::mps {
namespace {

using ForwardKernel = std::shared_ptr<CNNKernel>;
using GradientKernel = std::shared_ptr<CNNGradientKernel>;

// --- the two kernels of each pair ----------------------------------------------------------------

template <LocalNormalizationType kType>
ForwardKernel forward_kernel(LocalNormalizationPair<kType>, const Device& d, LocalNormalization p) {
  p.type = kType;
  return std::make_shared<CNNLocalNormalization>(d, p);
}
template <LocalNormalizationType kType>
GradientKernel gradient_kernel(LocalNormalizationPair<kType>, const Device& d,
                               LocalNormalization p) {
  p.type = kType;
  return std::make_shared<CNNLocalNormalizationGradient>(d, p);
}

template <bool kBilinear>
ForwardKernel forward_kernel(UpsamplingPair<kBilinear>, const Device& d, Upsampling p) {
  p.bilinear = kBilinear;
  return std::make_shared<CNNUpsampling>(d, p);
}
template <bool kBilinear>
GradientKernel gradient_kernel(UpsamplingPair<kBilinear>, const Device& d, Upsampling p) {
  p.bilinear = kBilinear;
  return std::make_shared<CNNUpsamplingGradient>(d, p);
}

ForwardKernel forward_kernel(DropoutPair, const Device& d, const DropoutParameters& p) {
  return std::make_shared<CNNDropout>(d, p);
}
GradientKernel gradient_kernel(DropoutPair, const Device& d, const DropoutParameters& p) {
  return std::make_shared<CNNDropoutGradient>(d, p);
}

ForwardKernel forward_kernel(ReshapePair, const Device& d, const ReshapeParameters& p) {
  auto kernel = std::make_shared<NNReshape>(d);
  kernel->set_reshaped(p.width, p.height, p.feature_channels);
  return kernel;
}
GradientKernel gradient_kernel(ReshapePair, const Device& d, const ReshapeParameters&) {
  return std::make_shared<NNReshapeGradient>(d);
}

ForwardKernel forward_kernel(PadPair, const Device& d, const PadParameters& p) {
  auto kernel = std::make_shared<NNPad>(d, p.before, p.after);
  kernel->set_edge_mode(p.edge_mode);
  kernel->set_fill_value(p.fill_value);
  return kernel;
}
GradientKernel gradient_kernel(PadPair, const Device& d, const PadParameters&) {
  return std::make_shared<NNPadGradient>(d);
}

ForwardKernel forward_kernel(GramMatrixPair, const Device& d, const GramMatrixParameters& p) {
  return std::make_shared<NNGramMatrixCalculation>(d, p.alpha);
}
GradientKernel gradient_kernel(GramMatrixPair, const Device& d, const GramMatrixParameters& p) {
  return std::make_shared<NNGramMatrixCalculationGradient>(d, p.alpha);
}

ForwardKernel forward_kernel(SpatialMeanPair, const Device& d, const ReductionParameters& p) {
  auto kernel = std::make_shared<NNReductionSpatialMean>(d);
  kernel->set_clip_rect_source(p.clip_rect_source);
  return kernel;
}
GradientKernel gradient_kernel(SpatialMeanPair, const Device& d, const ReductionParameters&) {
  return std::make_shared<NNReductionSpatialMeanGradient>(d);
}

template <NNReduceAxis kAxis, NNReduction kReduction>
ForwardKernel forward_kernel(ReductionPair<kAxis, kReduction>, const Device& d,
                             const ReductionParameters& p) {
  auto kernel = std::make_shared<NNReduceUnary>(d, kAxis, kReduction);
  kernel->set_weight(p.weight);
  kernel->set_clip_rect_source(p.clip_rect_source);
  return kernel;
}

ForwardKernel forward_kernel(BilinearScalePair, const Device& d, const ScaleParameters& p) {
  return std::make_shared<NNResizeBilinear>(d, p.width, p.height, false);
}

// -------------------------------------------------------------------------------------------------

class GramMatrixStep final : public ForwardStep {
 public:
  GramMatrixStep(GraphPlan& plan, NNFilterNode& node, ForwardKernel kernel_in,
                 NNNumberCallback alpha)
      : ForwardStep(plan, node, std::move(kernel_in)), alpha_(std::move(alpha)) {}
  void visit_owned(OwnershipVisitor& visitor) const override {
    ForwardStep::visit_owned(visitor);
    alpha_.visit_owned(visitor);
  }

 protected:
  void prepare(const ImageBatch& x, const ImageBatch& y) override {
    if (alpha_.call == nullptr) return;
    static_cast<NNGramMatrixCalculation&>(*kernel).set_running_alpha(alpha_.call(x[0], y[0]));
  }

 private:
  NNNumberCallback alpha_;
};

template <class Pair>
constexpr bool kHasGradient = Pair::kGradient != nullptr;

}  // namespace

template <LocalNormalizationType kType>
LocalNormalization LocalNormalizationPair<kType>::defaults() {
  constexpr std::int64_t kSize = 5;
  if (kType == LocalNormalizationType::kCrossChannel) {
    return LocalNormalization::cross_channel(kSize);
  }
  if (kType == LocalNormalizationType::kSpatial) return LocalNormalization::spatial(kSize, kSize);
  LocalNormalization p = LocalNormalization::local_contrast(kSize, kSize);
  p.alpha = 1;
  return p;
}

template <class Pair>
PairNode<Pair>::PairNode(NNImageNodePtr source, Parameters parameters_in)
    : ParameterNode<Parameters>(std::move(source), std::move(parameters_in)) {
  this->check_sources(Pair::kForward);
  if constexpr (kHasGradient<Pair>) this->add_state(std::make_unique<NNGradientStateNode>());
}

template <class Pair>
std::vector<NNFilterNodePtr> PairNode<Pair>::make_gradients(const NNImageNodePtr& gradient) {
  if constexpr (kHasGradient<Pair>) {
    return {std::make_shared<PairGradientNode<Pair>>(gradient, this->sources()[0],
                                                     this->result_state())};
  }
  return NNFilterNode::make_gradients(gradient);
}

template <class Pair>
std::unique_ptr<GraphStep> PairNode<Pair>::make_step(GraphPlan& plan) {
  const auto kernel = forward_kernel(Pair{}, plan.device, this->parameters);
  if constexpr (std::is_same_v<Pair, GramMatrixPair>) {
    return std::make_unique<GramMatrixStep>(plan, *this, kernel,
                                            this->parameters.property_callback);
  }
  return std::make_unique<ForwardStep>(plan, *this, kernel);
}

template <class Pair>
PairGradientNode<Pair>::PairGradientNode(NNImageNodePtr source_gradient,
                                         NNImageNodePtr source_image, NNStateNodePtr gradient_state)
    : NNGradientFilterNode({std::move(source_gradient), std::move(source_image)},
                           {gradient_state}) {
  check_sources(Pair::kGradient);
  label = forward_of<PairNode<Pair>>(gradient_state, Pair::kGradient, Pair::kForward).label;
}

template <class Pair>
const PairNode<Pair>& PairGradientNode<Pair>::forward() const {
  return static_cast<const PairNode<Pair>&>(*source_states()[0]->owner());
}

template <class Pair>
std::unique_ptr<GraphStep> PairGradientNode<Pair>::make_step(GraphPlan& plan) {
  return std::make_unique<GradientStep>(plan, *this,
                                        gradient_kernel(Pair{}, plan.device, parameters()));
}

template struct LocalNormalizationPair<LocalNormalizationType::kCrossChannel>;
template struct LocalNormalizationPair<LocalNormalizationType::kSpatial>;
template struct LocalNormalizationPair<LocalNormalizationType::kLocalContrast>;

template class PairNode<CrossChannelPair>;
template class PairGradientNode<CrossChannelPair>;
template class PairNode<SpatialPair>;
template class PairGradientNode<SpatialPair>;
template class PairNode<LocalContrastPair>;
template class PairGradientNode<LocalContrastPair>;
template class PairNode<UpsamplingPair<false>>;
template class PairGradientNode<UpsamplingPair<false>>;
template class PairNode<UpsamplingPair<true>>;
template class PairGradientNode<UpsamplingPair<true>>;
template class PairNode<DropoutPair>;
template class PairGradientNode<DropoutPair>;
template class PairNode<ReshapePair>;
template class PairGradientNode<ReshapePair>;
template class PairNode<PadPair>;
template class PairGradientNode<PadPair>;
template class PairNode<GramMatrixPair>;
template class PairGradientNode<GramMatrixPair>;
template class PairNode<SpatialMeanPair>;
template class PairGradientNode<SpatialMeanPair>;
template class PairNode<ReductionPair<NNReduceAxis::kRow, NNReduction::kSum>>;
template class PairNode<ReductionPair<NNReduceAxis::kRow, NNReduction::kMean>>;
template class PairNode<ReductionPair<NNReduceAxis::kRow, NNReduction::kMin>>;
template class PairNode<ReductionPair<NNReduceAxis::kRow, NNReduction::kMax>>;
template class PairNode<ReductionPair<NNReduceAxis::kColumn, NNReduction::kSum>>;
template class PairNode<ReductionPair<NNReduceAxis::kColumn, NNReduction::kMean>>;
template class PairNode<ReductionPair<NNReduceAxis::kColumn, NNReduction::kMin>>;
template class PairNode<ReductionPair<NNReduceAxis::kColumn, NNReduction::kMax>>;
template class PairNode<ReductionPair<NNReduceAxis::kFeatureChannels, NNReduction::kSum>>;
template class PairNode<ReductionPair<NNReduceAxis::kFeatureChannels, NNReduction::kMean>>;
template class PairNode<ReductionPair<NNReduceAxis::kFeatureChannels, NNReduction::kMin>>;
template class PairNode<ReductionPair<NNReduceAxis::kFeatureChannels, NNReduction::kMax>>;
template class PairNode<ReductionPair<NNReduceAxis::kFeatureChannels, NNReduction::kArgumentMin>>;
template class PairNode<ReductionPair<NNReduceAxis::kFeatureChannels, NNReduction::kArgumentMax>>;
template class PairNode<BilinearScalePair>;

}  // namespace traingraph::mps
