// Nodes with one source and parameters: the forward and gradient kernel of each row, and the steps
// that encode them.
#include <traingraph/mps/unary_nodes.h>

#include <string_view>
#include <type_traits>

#include "mps/nodes/node_steps.h"
#include "mps/nodes/node_support.h"

namespace traingraph::mps {
namespace {

using ForwardKernel = std::shared_ptr<CNNKernel>;
using GradientKernel = std::shared_ptr<CNNGradientKernel>;

// --- the two kernels of each row -----------------------------------------------------------------

ForwardKernel forward_kernel(int, const Device& d, const NeuronDescriptor& p) {
  return std::make_shared<CNNNeuron>(d, p);
}
GradientKernel gradient_kernel(int, const Device& d, const NeuronDescriptor& p) {
  return std::make_shared<CNNNeuronGradient>(d, p);
}

ForwardKernel forward_kernel(int type, const Device& d, const KernelWindow& p) {
  return std::make_shared<CNNPooling>(d, static_cast<CNNPoolingType>(type), p);
}
GradientKernel gradient_kernel(int type, const Device& d, const KernelWindow& p) {
  return std::make_shared<CNNPoolingGradient>(d, static_cast<CNNPoolingType>(type), p);
}

ForwardKernel forward_kernel(int logarithm, const Device& d, const SoftMaxParameters&) {
  return std::make_shared<CNNSoftMax>(d, logarithm != 0);
}
GradientKernel gradient_kernel(int logarithm, const Device& d, const SoftMaxParameters&) {
  return std::make_shared<CNNSoftMaxGradient>(d, logarithm != 0);
}

ForwardKernel forward_kernel(int type, const Device& d, LocalNormalization p) {
  p.type = static_cast<LocalNormalizationType>(type);
  return std::make_shared<CNNLocalNormalization>(d, p);
}
GradientKernel gradient_kernel(int type, const Device& d, LocalNormalization p) {
  p.type = static_cast<LocalNormalizationType>(type);
  return std::make_shared<CNNLocalNormalizationGradient>(d, p);
}

ForwardKernel forward_kernel(int bilinear, const Device& d, Upsampling p) {
  p.bilinear = bilinear != 0;
  return std::make_shared<CNNUpsampling>(d, p);
}
GradientKernel gradient_kernel(int bilinear, const Device& d, Upsampling p) {
  p.bilinear = bilinear != 0;
  return std::make_shared<CNNUpsamplingGradient>(d, p);
}

ForwardKernel forward_kernel(int, const Device& d, const DropoutParameters& p) {
  return std::make_shared<CNNDropout>(d, p);
}
GradientKernel gradient_kernel(int, const Device& d, const DropoutParameters& p) {
  return std::make_shared<CNNDropoutGradient>(d, p);
}

ForwardKernel forward_kernel(int, const Device& d, const ReshapeParameters& p) {
  auto kernel = std::make_shared<NNReshape>(d);
  kernel->set_reshaped(p.width, p.height, p.feature_channels);
  return kernel;
}
GradientKernel gradient_kernel(int, const Device& d, const ReshapeParameters&) {
  return std::make_shared<NNReshapeGradient>(d);
}

ForwardKernel forward_kernel(int, const Device& d, const PadParameters& p) {
  auto kernel = std::make_shared<NNPad>(d, p.before, p.after);
  kernel->set_edge_mode(p.edge_mode);
  kernel->set_fill_value(p.fill_value);
  return kernel;
}
GradientKernel gradient_kernel(int, const Device& d, const PadParameters&) {
  return std::make_shared<NNPadGradient>(d);
}

ForwardKernel forward_kernel(int, const Device& d, const GramMatrixParameters& p) {
  return std::make_shared<NNGramMatrixCalculation>(d, p.alpha);
}
GradientKernel gradient_kernel(int, const Device& d, const GramMatrixParameters& p) {
  return std::make_shared<NNGramMatrixCalculationGradient>(d, p.alpha);
}

ForwardKernel forward_kernel(int which, const Device& d, const ReductionParameters& p) {
  if (which == kSpatialMean) {
    auto kernel = std::make_shared<NNReductionSpatialMean>(d);
    kernel->set_clip_rect_source(p.clip_rect_source);
    return kernel;
  }
  auto kernel = std::make_shared<NNReduceUnary>(d, static_cast<NNReduceAxis>(which / kReductions),
                                                static_cast<NNReduction>(which % kReductions));
  kernel->set_weight(p.weight);
  kernel->set_clip_rect_source(p.clip_rect_source);
  return kernel;
}
GradientKernel gradient_kernel(int, const Device& d, const ReductionParameters&) {
  return std::make_shared<NNReductionSpatialMeanGradient>(d);
}

ForwardKernel forward_kernel(int, const Device& d, const ScaleParameters& p) {
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

template <class Parameters>
const ParameterNode<Parameters>& forward_of_row(const NodeRow<Parameters>& row,
                                                const NNStateNodePtr& state) {
  return forward_of<ParameterNode<Parameters>>(
      state, row.gradient, row.name, [&row](const ParameterNode<Parameters>& node) {
        return std::string_view(node.row().gradient) == row.gradient;
      });
}

}  // namespace

LocalNormalization default_parameters(const NodeRow<LocalNormalization>& row) {
  constexpr std::int64_t kSize = 5;
  const auto type = static_cast<LocalNormalizationType>(row.which);
  if (type == LocalNormalizationType::kCrossChannel) {
    return LocalNormalization::cross_channel(kSize);
  }
  if (type == LocalNormalizationType::kSpatial) return LocalNormalization::spatial(kSize, kSize);
  LocalNormalization p = LocalNormalization::local_contrast(kSize, kSize);
  p.alpha = 1;
  return p;
}

template <class Parameters>
ParameterNode<Parameters>::ParameterNode(const NodeRow<Parameters>& row, NNImageNodePtr source,
                                         Parameters parameters)
    : NNFilterNode({std::move(source)}), row_(row), parameters_(std::move(parameters)) {
  check_sources(row.name);
  if (row.gradient != nullptr) add_state(std::make_unique<NNGradientStateNode>());
}

template <class Parameters>
std::vector<NNFilterNodePtr> ParameterNode<Parameters>::make_gradients(
    const NNImageNodePtr& gradient) {
  if constexpr (!std::is_same_v<Parameters, ScaleParameters>) {
    constexpr bool kReadsResult = std::is_same_v<Parameters, SoftMaxParameters>;
    if (row_.gradient != nullptr) {
      return {std::make_shared<ParameterGradientNode<Parameters>>(
          row_, gradient, kReadsResult ? result_image() : sources()[0], result_state())};
    }
  }
  return NNFilterNode::make_gradients(gradient);
}

template <class Parameters>
std::unique_ptr<GraphStep> ParameterNode<Parameters>::make_step(GraphPlan& plan) {
  const ForwardKernel kernel = forward_kernel(row_.which, plan.device, parameters_);
  if constexpr (std::is_same_v<Parameters, GramMatrixParameters>) {
    return std::make_unique<GramMatrixStep>(plan, *this, kernel, parameters_.property_callback);
  }
  return std::make_unique<ForwardStep>(plan, *this, kernel);
}

template <class Parameters>
ParameterGradientNode<Parameters>::ParameterGradientNode(const NodeRow<Parameters>& row,
                                                         NNImageNodePtr source_gradient,
                                                         NNImageNodePtr source_image,
                                                         NNStateNodePtr gradient_state)
    : NNGradientFilterNode(row.gradient, std::move(source_gradient), std::move(source_image),
                           gradient_state, forward_of_row(row, gradient_state)),
      row_(row) {}

template <class Parameters>
const ParameterNode<Parameters>& ParameterGradientNode<Parameters>::forward() const {
  return static_cast<const ParameterNode<Parameters>&>(*source_states()[0]->owner());
}

template <class Parameters>
std::unique_ptr<GraphStep> ParameterGradientNode<Parameters>::make_step(GraphPlan& plan) {
  return std::make_unique<GradientStep>(plan, *this,
                                        gradient_kernel(row_.which, plan.device, parameters()));
}

template class ParameterNode<NeuronDescriptor>;
template class ParameterGradientNode<NeuronDescriptor>;
template class ParameterNode<KernelWindow>;
template class ParameterGradientNode<KernelWindow>;
template class ParameterNode<SoftMaxParameters>;
template class ParameterGradientNode<SoftMaxParameters>;
template class ParameterNode<LocalNormalization>;
template class ParameterGradientNode<LocalNormalization>;
template class ParameterNode<Upsampling>;
template class ParameterGradientNode<Upsampling>;
template class ParameterNode<DropoutParameters>;
template class ParameterGradientNode<DropoutParameters>;
template class ParameterNode<ReshapeParameters>;
template class ParameterGradientNode<ReshapeParameters>;
template class ParameterNode<PadParameters>;
template class ParameterGradientNode<PadParameters>;
template class ParameterNode<GramMatrixParameters>;
template class ParameterGradientNode<GramMatrixParameters>;
template class ParameterNode<ReductionParameters>;
template class ParameterGradientNode<ReductionParameters>;
template class ParameterNode<ScaleParameters>;

}  // namespace traingraph::mps
