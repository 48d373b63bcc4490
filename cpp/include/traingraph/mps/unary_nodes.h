#pragma once

#include <optional>

#include <traingraph/mps/dropout.h>
#include <traingraph/mps/local_normalization.h>
#include <traingraph/mps/nodes.h>
#include <traingraph/mps/rearrangement.h>
#include <traingraph/mps/reduction.h>
#include <traingraph/mps/upsampling.h>

// Nodes with one source whose kernels follow from a few parameters. A *pair* says what such a node
// and its gradient node are called, and what their parameters are.
namespace traingraph::mps {

template <class Parameters_>
class TRAINGRAPH_API ParameterNode : public NNFilterNode {
 public:
  using Parameters = Parameters_;
  // Those of the kernel in graphs made from now on.
  Parameters parameters;
  void visit_owned(OwnershipVisitor& visitor) const override {
    NNFilterNode::visit_owned(visitor);
    if constexpr (requires { parameters.visit_owned(visitor); }) parameters.visit_owned(visitor);
  }

 protected:
  ParameterNode(NNImageNodePtr source, Parameters parameters_in)
      : NNFilterNode({std::move(source)}), parameters(std::move(parameters_in)) {}
};

template <class Pair>
class TRAINGRAPH_API PairNode final : public ParameterNode<typename Pair::Parameters> {
 public:
  using Parameters = typename Pair::Parameters;
  explicit PairNode(NNImageNodePtr source, Parameters parameters = Pair::defaults());
  const char* kind() const override { return Pair::kForward; }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 protected:
  std::vector<NNFilterNodePtr> make_gradients(const NNImageNodePtr& source_gradient) override;
};

template <class Pair>
class TRAINGRAPH_API PairGradientNode final : public NNGradientFilterNode {
 public:
  using Parameters = typename Pair::Parameters;
  PairGradientNode(NNImageNodePtr source_gradient, NNImageNodePtr source_image,
                   NNStateNodePtr gradient_state);
  const char* kind() const override { return Pair::kGradient; }
  const PairNode<Pair>& forward() const;
  // The forward node's unless they are set.
  Parameters parameters() const { return own_.value_or(forward().parameters); }
  void set_parameters(const Parameters& value) { own_ = value; }
  void visit_owned(OwnershipVisitor& visitor) const override {
    NNFilterNode::visit_owned(visitor);
    if constexpr (requires { own_->visit_owned(visitor); }) {
      if (own_) own_->visit_owned(visitor);
    }
  }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 private:
  std::optional<Parameters> own_;
};

// --- pairs ---------------------------------------------------------------------------------------

template <LocalNormalizationType kType>
struct TRAINGRAPH_API LocalNormalizationPair {
  using Parameters = LocalNormalization;
  static constexpr const char* kNames[3][2] = {
      {"MPSCNNCrossChannelNormalizationNode", "MPSCNNCrossChannelNormalizationGradientNode"},
      {"MPSCNNSpatialNormalizationNode", "MPSCNNSpatialNormalizationGradientNode"},
      {"MPSCNNLocalContrastNormalizationNode", "MPSCNNLocalContrastNormalizationGradientNode"}};
  static constexpr const char* kForward = kNames[static_cast<int>(kType)][0];
  static constexpr const char* kGradient = kNames[static_cast<int>(kType)][1];
  // Windows of 5; alpha is 1 for local contrast too, where its kernel begins with 0.
  static Parameters defaults();
};

template <bool kBilinear>
struct TRAINGRAPH_API UpsamplingPair {
  using Parameters = Upsampling;
  static constexpr const char* kForward =
      kBilinear ? "MPSCNNUpsamplingBilinearNode" : "MPSCNNUpsamplingNearestNode";
  static constexpr const char* kGradient =
      kBilinear ? "MPSCNNUpsamplingBilinearGradientNode" : "MPSCNNUpsamplingNearestGradientNode";
  static Parameters defaults() { return {.bilinear = kBilinear}; }
};

struct TRAINGRAPH_API DropoutPair {
  using Parameters = DropoutParameters;
  static constexpr const char* kForward = "MPSCNNDropoutNode";
  static constexpr const char* kGradient = "MPSCNNDropoutGradientNode";
  static Parameters defaults() { return {}; }
};

// 0: as the source.
struct TRAINGRAPH_API ReshapeParameters {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::int64_t feature_channels = 0;
};
struct TRAINGRAPH_API ReshapePair {
  using Parameters = ReshapeParameters;
  static constexpr const char* kForward = "MPSNNReshapeNode";
  static constexpr const char* kGradient = "MPSNNReshapeGradientNode";
  static Parameters defaults() { return {}; }
};

struct TRAINGRAPH_API PadParameters {
  Offset before;
  Offset after;
  EdgeMode edge_mode = EdgeMode::kZero;
  float fill_value = 0;
};
struct TRAINGRAPH_API PadPair {
  using Parameters = PadParameters;
  static constexpr const char* kForward = "MPSNNPadNode";
  static constexpr const char* kGradient = "MPSNNPadGradientNode";
  static Parameters defaults() { return {}; }
};

struct TRAINGRAPH_API GramMatrixParameters {
  float alpha = 1;
  // Alpha at each encoding; another one than before compiles anew.
  NNNumberCallback property_callback;
  void visit_owned(OwnershipVisitor& visitor) const { property_callback.visit_owned(visitor); }
};
struct TRAINGRAPH_API GramMatrixPair {
  using Parameters = GramMatrixParameters;
  static constexpr const char* kForward = "MPSNNGramMatrixCalculationNode";
  static constexpr const char* kGradient = "MPSNNGramMatrixCalculationGradientNode";
  static Parameters defaults() { return {}; }
};

struct TRAINGRAPH_API ReductionParameters {
  float weight = 1;         // of sums over channels
  Region clip_rect_source;  // what of the source is read, as far as it is there
};
struct TRAINGRAPH_API SpatialMeanPair {
  using Parameters = ReductionParameters;
  static constexpr const char* kForward = "MPSNNReductionSpatialMeanNode";
  static constexpr const char* kGradient = "MPSNNReductionSpatialMeanGradientNode";
  static Parameters defaults() { return {}; }
};
// Those without a gradient.
template <NNReduceAxis kAxis, NNReduction kReduction>
struct TRAINGRAPH_API ReductionPair {
  using Parameters = ReductionParameters;
  static constexpr const char* kNames[3][6] = {
      {"MPSNNReductionRowSumNode", "MPSNNReductionRowMeanNode", "MPSNNReductionRowMinNode",
       "MPSNNReductionRowMaxNode", nullptr, nullptr},
      {"MPSNNReductionColumnSumNode", "MPSNNReductionColumnMeanNode", "MPSNNReductionColumnMinNode",
       "MPSNNReductionColumnMaxNode", nullptr, nullptr},
      {"MPSNNReductionFeatureChannelsSumNode", "MPSNNReductionFeatureChannelsMeanNode",
       "MPSNNReductionFeatureChannelsMinNode", "MPSNNReductionFeatureChannelsMaxNode",
       "MPSNNReductionFeatureChannelsArgumentMinNode",
       "MPSNNReductionFeatureChannelsArgumentMaxNode"}};
  static constexpr const char* kForward =
      kNames[static_cast<int>(kAxis)][static_cast<int>(kReduction)];
  static constexpr const char* kGradient = nullptr;
  static Parameters defaults() { return {}; }
};

// The result's size.
struct TRAINGRAPH_API ScaleParameters {
  std::int64_t width = 0;
  std::int64_t height = 0;
};
// Corners are not aligned. No gradient.
struct TRAINGRAPH_API BilinearScalePair {
  using Parameters = ScaleParameters;
  static constexpr const char* kForward = "MPSNNBilinearScaleNode";
  static constexpr const char* kGradient = nullptr;
  static Parameters defaults() { return {}; }
};

// --- nodes ---------------------------------------------------------------------------------------

using CNNNormalizationNode = ParameterNode<LocalNormalization>;
using CrossChannelPair = LocalNormalizationPair<LocalNormalizationType::kCrossChannel>;
using CNNCrossChannelNormalizationNode = PairNode<CrossChannelPair>;
using CNNCrossChannelNormalizationGradientNode = PairGradientNode<CrossChannelPair>;
using SpatialPair = LocalNormalizationPair<LocalNormalizationType::kSpatial>;
using CNNSpatialNormalizationNode = PairNode<SpatialPair>;
using CNNSpatialNormalizationGradientNode = PairGradientNode<SpatialPair>;
using LocalContrastPair = LocalNormalizationPair<LocalNormalizationType::kLocalContrast>;
using CNNLocalContrastNormalizationNode = PairNode<LocalContrastPair>;
using CNNLocalContrastNormalizationGradientNode = PairGradientNode<LocalContrastPair>;
using CNNUpsamplingNearestNode = PairNode<UpsamplingPair<false>>;
using CNNUpsamplingNearestGradientNode = PairGradientNode<UpsamplingPair<false>>;
using CNNUpsamplingBilinearNode = PairNode<UpsamplingPair<true>>;
using CNNUpsamplingBilinearGradientNode = PairGradientNode<UpsamplingPair<true>>;
using CNNDropoutNode = PairNode<DropoutPair>;
using CNNDropoutGradientNode = PairGradientNode<DropoutPair>;
using NNReshapeNode = PairNode<ReshapePair>;
using NNReshapeGradientNode = PairGradientNode<ReshapePair>;
using NNPadNode = PairNode<PadPair>;
using NNPadGradientNode = PairGradientNode<PadPair>;
using NNGramMatrixCalculationNode = PairNode<GramMatrixPair>;
using NNGramMatrixCalculationGradientNode = PairGradientNode<GramMatrixPair>;
using NNUnaryReductionNode = ParameterNode<ReductionParameters>;
using NNReductionSpatialMeanNode = PairNode<SpatialMeanPair>;
using NNReductionSpatialMeanGradientNode = PairGradientNode<SpatialMeanPair>;
template <NNReduceAxis kAxis, NNReduction kReduction>
using NNReductionNode = PairNode<ReductionPair<kAxis, kReduction>>;
using NNReductionRowSumNode = NNReductionNode<NNReduceAxis::kRow, NNReduction::kSum>;
using NNReductionRowMeanNode = NNReductionNode<NNReduceAxis::kRow, NNReduction::kMean>;
using NNReductionRowMinNode = NNReductionNode<NNReduceAxis::kRow, NNReduction::kMin>;
using NNReductionRowMaxNode = NNReductionNode<NNReduceAxis::kRow, NNReduction::kMax>;
using NNReductionColumnSumNode = NNReductionNode<NNReduceAxis::kColumn, NNReduction::kSum>;
using NNReductionColumnMeanNode = NNReductionNode<NNReduceAxis::kColumn, NNReduction::kMean>;
using NNReductionColumnMinNode = NNReductionNode<NNReduceAxis::kColumn, NNReduction::kMin>;
using NNReductionColumnMaxNode = NNReductionNode<NNReduceAxis::kColumn, NNReduction::kMax>;
using NNReductionFeatureChannelsSumNode =
    NNReductionNode<NNReduceAxis::kFeatureChannels, NNReduction::kSum>;
using NNReductionFeatureChannelsMeanNode =
    NNReductionNode<NNReduceAxis::kFeatureChannels, NNReduction::kMean>;
using NNReductionFeatureChannelsMinNode =
    NNReductionNode<NNReduceAxis::kFeatureChannels, NNReduction::kMin>;
using NNReductionFeatureChannelsMaxNode =
    NNReductionNode<NNReduceAxis::kFeatureChannels, NNReduction::kMax>;
using NNReductionFeatureChannelsArgumentMinNode =
    NNReductionNode<NNReduceAxis::kFeatureChannels, NNReduction::kArgumentMin>;
using NNReductionFeatureChannelsArgumentMaxNode =
    NNReductionNode<NNReduceAxis::kFeatureChannels, NNReduction::kArgumentMax>;
using NNScaleNode = ParameterNode<ScaleParameters>;
using NNBilinearScaleNode = PairNode<BilinearScalePair>;

}  // namespace traingraph::mps
