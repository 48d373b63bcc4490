// Graph nodes with one source and a few parameters: neurons, pooling, softmax, local normalization,
// upsampling, dropout, reshape, padding, reductions. A NodeRow names a node and its gradient node.
#pragma once

#include <optional>
#include <type_traits>

#include <traingraph/mps/dropout.h>
#include <traingraph/mps/local_normalization.h>
#include <traingraph/mps/neuron.h>
#include <traingraph/mps/nodes.h>
#include <traingraph/mps/pooling.h>
#include <traingraph/mps/rearrangement.h>
#include <traingraph/mps/reduction.h>
#include <traingraph/mps/softmax.h>
#include <traingraph/mps/upsampling.h>

namespace traingraph::mps {

template <class Parameters_>
struct NodeRow {
  using Parameters = Parameters_;
  template <class Which = int>
  constexpr NodeRow(const char* name_in, const char* gradient_in, Which which_in = {})
      : name(name_in), gradient(gradient_in), which(static_cast<int>(which_in)) {}

  const char* name;
  const char* gradient;  // null: none
  int which;             // the raw value of what tells apart nodes with these parameters
};

template <class Parameters_>
class TRAINGRAPH_API ParameterNode : public NNFilterNode {
 public:
  using Parameters = Parameters_;
  ParameterNode(const NodeRow<Parameters>& row, NNImageNodePtr source, Parameters parameters);
  const char* kind() const override { return row_.name; }
  const NodeRow<Parameters>& row() const { return row_; }
  const Parameters& parameters() const { return parameters_; }
  // Those of the kernel in graphs made from now on.
  void set_parameters(Parameters value) { parameters_ = std::move(value); }
  void visit_owned(OwnershipVisitor& visitor) const override {
    NNFilterNode::visit_owned(visitor);
    if constexpr (requires { parameters_.visit_owned(visitor); }) parameters_.visit_owned(visitor);
  }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 protected:
  std::vector<NNFilterNodePtr> make_gradients(const NNImageNodePtr& source_gradient) override;

 private:
  NodeRow<Parameters> row_;
  Parameters parameters_;
};

template <class Parameters_>
class TRAINGRAPH_API ParameterGradientNode final : public NNGradientFilterNode {
 public:
  using Parameters = Parameters_;
  ParameterGradientNode(const NodeRow<Parameters>& row, NNImageNodePtr source_gradient,
                        NNImageNodePtr source_image, NNStateNodePtr gradient_state);
  const char* kind() const override { return row_.gradient; }
  const ParameterNode<Parameters>& forward() const;
  // The forward node's unless they are set.
  Parameters parameters() const { return own_.value_or(forward().parameters()); }
  void set_parameters(Parameters value) { own_ = std::move(value); }
  void visit_owned(OwnershipVisitor& visitor) const override {
    NNFilterNode::visit_owned(visitor);
    if constexpr (requires { own_->visit_owned(visitor); }) {
      if (own_) own_->visit_owned(visitor);
    }
  }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 private:
  NodeRow<Parameters> row_;
  std::optional<Parameters> own_;
};

// --- parameters ----------------------------------------------------------------------------------

struct TRAINGRAPH_API SoftMaxParameters {};

// 0: as the source.
struct TRAINGRAPH_API ReshapeParameters {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::int64_t feature_channels = 0;
};

struct TRAINGRAPH_API PadParameters {
  Offset before;
  Offset after;
  EdgeMode edge_mode = EdgeMode::kZero;
  float fill_value = 0;
};

struct TRAINGRAPH_API GramMatrixParameters {
  float alpha = 1;
  // Alpha at each encoding; another one than before compiles anew.
  NNNumberCallback property_callback;
  void visit_owned(OwnershipVisitor& visitor) const { property_callback.visit_owned(visitor); }
};

struct TRAINGRAPH_API ReductionParameters {
  float weight = 1;         // of sums over channels
  Region clip_rect_source;  // what of the source is read, as far as it is there
};

// Apple's object that moves and scales the source. There is none here.
struct TRAINGRAPH_API TransformProvider {
  bool is_given = false;
};

// The result's size. Corners are not aligned.
struct TRAINGRAPH_API ScaleParameters {
  std::int64_t width = 0;
  std::int64_t height = 0;
};

// --- rows ----------------------------------------------------------------------------------------

// A neuron node with a name of its own has this row but for the name.
inline constexpr NodeRow<NeuronDescriptor> kNeuronNodes[] = {
    {"MPSCNNNeuronNode", "MPSCNNNeuronGradientNode"}};
inline constexpr NodeRow<KernelWindow> kPoolingNodes[] = {
    {"MPSCNNPoolingMaxNode", "MPSCNNPoolingMaxGradientNode", CNNPoolingType::kMax},
    {"MPSCNNPoolingAverageNode", "MPSCNNPoolingAverageGradientNode", CNNPoolingType::kAverage},
    {"MPSCNNPoolingL2NormNode", "MPSCNNPoolingL2NormGradientNode", CNNPoolingType::kL2Norm},
    {"MPSCNNDilatedPoolingMaxNode", "MPSCNNDilatedPoolingMaxGradientNode",
     CNNPoolingType::kDilatedMax}};
// Or the logarithm; their gradient nodes read the result, not the source.
inline constexpr NodeRow<SoftMaxParameters> kSoftMaxNodes[] = {
    {"MPSCNNSoftMaxNode", "MPSCNNSoftMaxGradientNode", false},
    {"MPSCNNLogSoftMaxNode", "MPSCNNLogSoftMaxGradientNode", true}};
inline constexpr NodeRow<LocalNormalization> kLocalNormalizationNodes[] = {
    {"MPSCNNCrossChannelNormalizationNode", "MPSCNNCrossChannelNormalizationGradientNode",
     LocalNormalizationType::kCrossChannel},
    {"MPSCNNSpatialNormalizationNode", "MPSCNNSpatialNormalizationGradientNode",
     LocalNormalizationType::kSpatial},
    {"MPSCNNLocalContrastNormalizationNode", "MPSCNNLocalContrastNormalizationGradientNode",
     LocalNormalizationType::kLocalContrast}};
// Or bilinear.
inline constexpr NodeRow<Upsampling> kUpsamplingNodes[] = {
    {"MPSCNNUpsamplingNearestNode", "MPSCNNUpsamplingNearestGradientNode", false},
    {"MPSCNNUpsamplingBilinearNode", "MPSCNNUpsamplingBilinearGradientNode", true}};
inline constexpr NodeRow<DropoutParameters> kDropoutNodes[] = {
    {"MPSCNNDropoutNode", "MPSCNNDropoutGradientNode"}};
inline constexpr NodeRow<ReshapeParameters> kReshapeNodes[] = {
    {"MPSNNReshapeNode", "MPSNNReshapeGradientNode"}};
inline constexpr NodeRow<PadParameters> kPadNodes[] = {{"MPSNNPadNode", "MPSNNPadGradientNode"}};
inline constexpr NodeRow<GramMatrixParameters> kGramMatrixNodes[] = {
    {"MPSNNGramMatrixCalculationNode", "MPSNNGramMatrixCalculationGradientNode"}};
inline constexpr NodeRow<ScaleParameters> kScaleNodes[] = {{"MPSNNBilinearScaleNode", nullptr}};

// The mean over rows and columns has a gradient. The others' number is kReductions times the axis
// and the reduction.
inline constexpr int kReductions = 6;
inline constexpr int kSpatialMean = 3 * kReductions;
inline constexpr NodeRow<ReductionParameters> kReductionNodes[] = {
    {"MPSNNReductionRowSumNode", nullptr, 0},
    {"MPSNNReductionRowMeanNode", nullptr, 1},
    {"MPSNNReductionRowMinNode", nullptr, 2},
    {"MPSNNReductionRowMaxNode", nullptr, 3},
    {"MPSNNReductionColumnSumNode", nullptr, 6},
    {"MPSNNReductionColumnMeanNode", nullptr, 7},
    {"MPSNNReductionColumnMinNode", nullptr, 8},
    {"MPSNNReductionColumnMaxNode", nullptr, 9},
    {"MPSNNReductionFeatureChannelsSumNode", nullptr, 12},
    {"MPSNNReductionFeatureChannelsMeanNode", nullptr, 13},
    {"MPSNNReductionFeatureChannelsMinNode", nullptr, 14},
    {"MPSNNReductionFeatureChannelsMaxNode", nullptr, 15},
    {"MPSNNReductionFeatureChannelsArgumentMinNode", nullptr, 16},
    {"MPSNNReductionFeatureChannelsArgumentMaxNode", nullptr, 17},
    {"MPSNNReductionSpatialMeanNode", "MPSNNReductionSpatialMeanGradientNode", kSpatialMean}};

// Windows of 5; alpha is 1 for local contrast too, where its kernel begins with 0.
TRAINGRAPH_API LocalNormalization default_parameters(const NodeRow<LocalNormalization>& row);
template <class Parameters>
Parameters default_parameters(const NodeRow<Parameters>&) {
  return {};
}

// --- nodes ---------------------------------------------------------------------------------------

template <const auto& kRows, int kRow = 0>
class NodeOf final : public ParameterNode<typename std::decay_t<decltype(kRows[0])>::Parameters> {
 public:
  using Parameters = typename std::decay_t<decltype(kRows[0])>::Parameters;
  explicit NodeOf(NNImageNodePtr source, Parameters parameters = default_parameters(kRows[kRow]))
      : ParameterNode<Parameters>(kRows[kRow], std::move(source), std::move(parameters)) {}
};
using CNNNeuronNode = NodeOf<kNeuronNodes>;
using CNNPoolingMaxNode = NodeOf<kPoolingNodes, 0>;
using CNNPoolingAverageNode = NodeOf<kPoolingNodes, 1>;
using CNNPoolingL2NormNode = NodeOf<kPoolingNodes, 2>;
using CNNDilatedPoolingMaxNode = NodeOf<kPoolingNodes, 3>;
using CNNSoftMaxNode = NodeOf<kSoftMaxNodes, 0>;
using CNNLogSoftMaxNode = NodeOf<kSoftMaxNodes, 1>;
using CNNCrossChannelNormalizationNode = NodeOf<kLocalNormalizationNodes, 0>;
using CNNSpatialNormalizationNode = NodeOf<kLocalNormalizationNodes, 1>;
using CNNLocalContrastNormalizationNode = NodeOf<kLocalNormalizationNodes, 2>;
using CNNUpsamplingNearestNode = NodeOf<kUpsamplingNodes, 0>;
using CNNUpsamplingBilinearNode = NodeOf<kUpsamplingNodes, 1>;
using CNNDropoutNode = NodeOf<kDropoutNodes>;
using NNReshapeNode = NodeOf<kReshapeNodes>;
using NNPadNode = NodeOf<kPadNodes>;
using NNGramMatrixCalculationNode = NodeOf<kGramMatrixNodes>;
using NNBilinearScaleNode = NodeOf<kScaleNodes>;
// The others by their row: NodeOf<kReductionNodes, 0>.
using NNReductionSpatialMeanNode = NodeOf<kReductionNodes, 14>;

}  // namespace traingraph::mps
