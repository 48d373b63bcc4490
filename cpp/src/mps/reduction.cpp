#include <traingraph/mps/reduction.h>

#include <traingraph/errors.h>

#include "mps/differentiable.h"

namespace traingraph::mps {
namespace {

using ir::ValueId;

// A Gram matrix's state, which knows the factor.
class GramState final : public GradientState {
 public:
  GramState(const KernelWindow& window, const ImageDescriptor& source,
            const CommandBuffer* temporary_on, float alpha_in, bool running_in)
      : GradientState(window, source, temporary_on), alpha(alpha_in), running(running_in) {}
  const float alpha;
  const bool running;
};

// The axis of (N, C, H, W).
int axis_of(NNReduceAxis axis) {
  if (axis == NNReduceAxis::kFeatureChannels) return 1;
  return axis == NNReduceAxis::kRow ? 3 : 2;
}

ValueId scaled_sum(Emission& e, ValueId x, std::vector<int> axes, double factor) {
  const ValueId sum = ops::reduce(e.graph, ir::ReduceKind::sum, x, std::move(axes));
  return factor == 1 ? sum : ops::unary(e.graph, ir::Scalar::scale, sum, factor);
}

ValueId spatial_mean(Emission& e, ValueId x, const Shape&) {
  const Shape& shape = e.graph.type(x).shape;
  return scaled_sum(e, x, {2, 3}, 1 / static_cast<double>(shape[2] * shape[3]));
}

// With the run's number for alpha, or with this one.
Form gram(float alpha, bool running) {
  return [alpha, running](Emission& e, ValueId x, const Shape& result) {
    const Shape shape = e.graph.type(x).shape;
    const ValueId rows = ops::reshape(e.graph, x, {shape[0], shape[1], shape[2] * shape[3]});
    const auto factor = running ? 1 : static_cast<double>(alpha);
    const ValueId y =
        ops::reshape(e.graph, ops::matmul(e.graph, rows, rows, false, true, factor), result);
    if (!running) return y;
    return ops::binary(e.graph, ir::Scalar::multiply, y, e.number(0, e.graph.type(y).data_type));
  };
}

}  // namespace

const char* NNReduceUnary::kind() const {
  static constexpr const char* kKinds[][2] = {
      {"MPSNNReduceRowSum", "MPSNNReduceRowMean"},
      {"MPSNNReduceColumnSum", "MPSNNReduceColumnMean"},
      {"MPSNNReduceFeatureChannelsSum", "MPSNNReduceFeatureChannelsMean"}};
  return kKinds[static_cast<int>(axis_)][mean_ ? 1 : 0];
}
OperationPtr NNReduceUnary::make_operation() const {
  const int axis = axis_of(axis_);
  const bool mean = mean_;
  const auto weight = static_cast<double>(weight_);
  return forward_operation(description(), [=](Emission& e, ValueId x, const Shape&) {
    const std::int64_t count = e.graph.type(x).shape[static_cast<std::size_t>(axis)];
    return scaled_sum(e, x, {axis}, mean ? weight / static_cast<double>(count) : weight);
  });
}
ImageDescriptor NNReduceUnary::result_of(const ImageDescriptor& source) const {
  ImageDescriptor result = source;
  if (axis_ == NNReduceAxis::kRow) result.width = 1;
  if (axis_ == NNReduceAxis::kColumn) result.height = 1;
  if (axis_ == NNReduceAxis::kFeatureChannels) result.feature_channels = 1;
  return result;
}

OperationPtr NNReductionSpatialMean::make_operation() const {
  return forward_operation(description(), spatial_mean);
}
ImageDescriptor NNReductionSpatialMean::result_of(const ImageDescriptor& source) const {
  ImageDescriptor result = source;
  result.width = result.height = 1;
  return result;
}
OperationPtr NNReductionSpatialMeanGradient::make_operation() const {
  return gradient_operation(description(), spatial_mean);
}
void NNReductionSpatialMeanGradient::check_gradient(const ImageDescriptor& gradient,
                                                    const ImageDescriptor& source) const {
  if (gradient.width == 1 && gradient.height == 1 &&
      gradient.feature_channels == source.feature_channels) {
    return;
  }
  refuse_shape("expected source gradients " + std::to_string(source.feature_channels) +
               "x1x1 but got " + to_string(gradient));
}

OperationPtr NNGramMatrixCalculation::make_operation() const {
  return forward_operation(description(), gram(alpha_, running_));
}
void NNGramMatrixCalculation::set_running_alpha(float value) {
  set(running_, true);
  alpha_ = value;
}
void NNGramMatrixCalculation::add_operands(Recording& recording) const {
  if (running_) recording.number(static_cast<double>(alpha_));
}
ImageDescriptor NNGramMatrixCalculation::result_of(const ImageDescriptor& source) const {
  ImageDescriptor result = source;
  result.width = source.feature_channels;
  result.height = 1;
  return result;
}
StatePtr NNGramMatrixCalculation::make_state(const ImageDescriptor& source,
                                             const CommandBuffer* on) const {
  return std::make_shared<GramState>(window_, source, on, alpha_, running_);
}
OperationPtr NNGramMatrixCalculationGradient::make_operation() const {
  return gradient_operation(description(), gram(alpha_, running_));
}
void NNGramMatrixCalculationGradient::set_running_alpha(float value) {
  set(running_, true);
  alpha_ = value;
}
void NNGramMatrixCalculationGradient::configure(const GradientState& state) {
  const auto* own = dynamic_cast<const GramState*>(&state);
  if (own == nullptr) return;
  if (own->running) {
    set_running_alpha(own->alpha);
  } else {
    set_alpha(own->alpha);
  }
}
void NNGramMatrixCalculationGradient::add_operands(Recording& recording, const StateBatch&) {
  if (running_) recording.number(static_cast<double>(alpha_));
}
void NNGramMatrixCalculationGradient::check_gradient(const ImageDescriptor& gradient,
                                                     const ImageDescriptor& source) const {
  const std::int64_t channels = source.feature_channels;
  if (gradient.width == channels && gradient.height == 1 && gradient.feature_channels == channels) {
    return;
  }
  refuse_shape("expected source gradients of " + std::to_string(channels) +
               " channels, one row and as many columns but got " + to_string(gradient));
}

}  // namespace traingraph::mps
