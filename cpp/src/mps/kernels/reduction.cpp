// Reductions, spatial means, weighted reductions and Gram matrices as ops; minimum, maximum and
// their arguments are max pooling over a whole axis.
#include <traingraph/mps/reduction.h>

#include <traingraph/errors.h>
#include <traingraph/reduction.h>

#include "mps/kernels/differentiable.h"
#include "mps/recording/image_parts.h"

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

// The state of a spatial mean, which knows what was read.
class SpatialMeanState final : public GradientState {
 public:
  SpatialMeanState(const KernelWindow& window, const ImageDescriptor& source,
                   const CommandBuffer* temporary_on, const Region& clip_rect_source_in)
      : GradientState(window, source, temporary_on), clip_rect_source(clip_rect_source_in) {}
  const Region clip_rect_source;
};

constexpr const char* kReductionKinds[][6] = {
    {"MPSNNReduceRowSum", "MPSNNReduceRowMean", "MPSNNReduceRowMin", "MPSNNReduceRowMax", nullptr,
     nullptr},
    {"MPSNNReduceColumnSum", "MPSNNReduceColumnMean", "MPSNNReduceColumnMin",
     "MPSNNReduceColumnMax", nullptr, nullptr},
    {"MPSNNReduceFeatureChannelsSum", "MPSNNReduceFeatureChannelsMean",
     "MPSNNReduceFeatureChannelsMin", "MPSNNReduceFeatureChannelsMax",
     "MPSNNReduceFeatureChannelsArgumentMin", "MPSNNReduceFeatureChannelsArgumentMax"}};
constexpr const char* kSourceRectangle = "source rectangle";

// The axis of (N, C, H, W).
int axis_of(NNReduceAxis axis) {
  if (axis == NNReduceAxis::kFeatureChannels) return 1;
  return axis == NNReduceAxis::kRow ? 3 : 2;
}

ValueId scaled_sum(Emission& e, ValueId x, std::vector<int> axes, double factor) {
  const ValueId sum = ops::reduce(e.graph, ir::ReduceKind::sum, x, std::move(axes));
  return factor == 1 ? sum : ops::unary(e.graph, ir::Scalar::scale, sum, factor);
}

Form spatial_mean(const Region& region) {
  return [region](Emission& e, ValueId x, const Shape&) {
    x = read_region(e.graph, x, region);
    const Shape& shape = e.graph.type(x).shape;
    return scaled_sum(e, x, {2, 3}, 1 / static_cast<double>(shape[2] * shape[3]));
  };
}

// 0, 1, 2, … along axis 2.
ValueId places(Emission& e, DataType type, std::int64_t count) {
  ValueId known = ops::filled(e.graph, {type, {1, 1, 1, 1}, false}, 0);
  for (std::int64_t size = 1; size < count; size *= 2) {
    const ValueId next =
        ops::unary(e.graph, ir::Scalar::affine, known, 1, static_cast<double>(size));
    known = ops::apply1(e.graph, ir::Op::concatenate, ir::AxisAttributes{2}, {known, next});
  }
  return ops::apply1(e.graph, ir::Op::slice, ir::SliceAttributes{2, 0, count}, {known});
}

// The largest element along an axis, or its place: max pooling with a window over the whole axis.
// Pooling chooses the first of equals, and NaN before numbers.
ValueId largest(Emission& e, ValueId x, int axis, bool place) {
  const ir::Type type = e.graph.type(x);
  Shape result = type.shape;
  result[static_cast<std::size_t>(axis)] = 1;
  if (axis == 1) {
    const Shape& s = type.shape;
    x = ops::reshape(e.graph, x, {s[0], 1, s[1], s[2] * s[3]});
  }
  const std::size_t pooled = axis == 3 ? 3 : 2;
  ir::PoolingAttributes attributes;
  attributes.window.kernel[pooled - 2] = e.graph.type(x).shape[pooled];
  attributes.with_index = place;
  const ir::NodeId node = ops::apply(e.graph, ir::Op::pooling, attributes, {x});
  ValueId y = e.graph.node(node).outputs[0];
  if (place) {
    // Indices cannot be cast: the gradient of the pooling marks them.
    attributes.source_shape = e.graph.type(x).shape;
    const ValueId one = ops::filled(e.graph, e.graph.type(y), 1);
    const ValueId index = e.graph.node(node).outputs[1];
    const ValueId marks = ops::apply1(e.graph, ir::Op::pooling_gradient, attributes, {one, index});
    const ValueId numbers = places(e, type.data_type, attributes.source_shape[2]);
    y = scaled_sum(e, ops::binary(e.graph, ir::Scalar::multiply, marks, numbers), {2}, 1);
  }
  return ops::reshape(e.graph, y, result);
}

Form reduction_of(NNReduceAxis along, NNReduction reduction, double weight, const Region& region) {
  const int axis = axis_of(along);
  return [=](Emission& e, ValueId x, const Shape&) {
    x = read_region(e.graph, x, region);
    const std::int64_t count = e.graph.type(x).shape[static_cast<std::size_t>(axis)];
    const auto negated = [&](ValueId value) {
      return ops::unary(e.graph, ir::Scalar::negate, value);
    };
    switch (reduction) {
      case NNReduction::kMin:
        return negated(largest(e, negated(x), axis, false));
      case NNReduction::kMax:
        return largest(e, x, axis, false);
      case NNReduction::kArgumentMin:
        return largest(e, negated(x), axis, true);
      case NNReduction::kArgumentMax:
        return largest(e, x, axis, true);
      case NNReduction::kMean:
        return scaled_sum(e, x, {axis}, weight / static_cast<double>(count));
      case NNReduction::kSum:
        break;
    }
    return scaled_sum(e, x, {axis}, weight);
  };
}

// How many elements of a weight that is not 0 there are over the channels, at least 1.
ValueId counted(Emission& e, ValueId weights) {
  const ValueId one = ops::filled(e.graph, e.graph.type(weights), 1);
  const ValueId marks = ops::binary(e.graph, ir::Scalar::where_nonzero, one, weights, 0);
  const ValueId count = scaled_sum(e, marks, {1}, 1);
  return ops::binary(e.graph, ir::Scalar::maximum, count,
                     ops::filled(e.graph, e.graph.type(count), 1));
}

// x, weights → y
class WeightedReduction final : public Operation {
 public:
  WeightedReduction(std::string subject_in, NNWeightedReduction reduction, const Region& primary,
                    const Region& secondary)
      : Operation(std::move(subject_in)),
        reduction_(reduction),
        primary_(primary),
        secondary_(secondary) {}
  void emit(Emission& e) const override {
    const ValueId x = read_region(e.graph, e.inputs[0], primary_);
    const ValueId weights = ops::cast(e.graph, read_region(e.graph, e.inputs[1], secondary_),
                                      e.graph.type(x).data_type);
    const auto channels = static_cast<double>(e.graph.type(x).shape[1]);
    const double factor = reduction_ == NNWeightedReduction::kMean ? 1 / channels : 1;
    const ValueId products = ops::binary(e.graph, ir::Scalar::multiply, x, weights);
    ValueId y = scaled_sum(e, products, {1}, factor);
    if (reduction_ == NNWeightedReduction::kSumByNonZeroWeights) {
      y = ops::binary(e.graph, ir::Scalar::divide, y, counted(e, weights));
    }
    e.set(0, y);
  }

 private:
  NNWeightedReduction reduction_;
  Region primary_, secondary_;
};

// With the run's number for alpha, or with this one.
Form gram(float alpha, bool running) {
  return [alpha, running](Emission& e, ValueId x, const Shape&) {
    const ValueId y = e.layer(GramMatrix(running ? 1.0f : alpha), {x});
    if (!running) return y;
    return ops::binary(e.graph, ir::Scalar::multiply, y, e.number(0, e.graph.type(y).data_type));
  };
}

}  // namespace

// --- along one axis ------------------------------------------------------------------------------

NNReduceUnary::NNReduceUnary(const Device& device, NNReduceAxis axis, NNReduction reduction)
    : CNNKernel(device), axis_(axis), reduction_(reduction) {
  if (NNReduceUnary::kind() != nullptr) return;
  throw InvalidArgument(
      "[MPSNNReduceUnary] expected the argument of a minimum or maximum over feature channels but "
      "got one over rows or columns");
}
const char* NNReduceUnary::kind() const {
  return kReductionKinds[static_cast<int>(axis_)][static_cast<int>(reduction_)];
}
void NNReduceUnary::set_clip_rect_source(const Region& value) {
  check_region(value, kSourceRectangle);
  set(clip_rect_source_, value);
}
OperationPtr NNReduceUnary::make_operation() const {
  return forward_operation(
      description(),
      reduction_of(axis_, reduction_, static_cast<double>(weight_), clip_rect_source_));
}
void NNReduceUnary::check_source(const ImageDescriptor& source) const {
  seen(source, clip_rect_source_);
}
ImageDescriptor NNReduceUnary::result_of(const ImageDescriptor& source) const {
  ImageDescriptor result = seen(source, clip_rect_source_);
  if (axis_ == NNReduceAxis::kRow) result.width = 1;
  if (axis_ == NNReduceAxis::kColumn) result.height = 1;
  if (axis_ == NNReduceAxis::kFeatureChannels) result.feature_channels = 1;
  return result;
}

// --- over the pixels -----------------------------------------------------------------------------

void NNReductionSpatialMean::set_clip_rect_source(const Region& value) {
  check_region(value, kSourceRectangle);
  set(clip_rect_source_, value);
}
OperationPtr NNReductionSpatialMean::make_operation() const {
  return forward_operation(description(), spatial_mean(clip_rect_source_));
}
void NNReductionSpatialMean::check_source(const ImageDescriptor& source) const {
  seen(source, clip_rect_source_);
}
ImageDescriptor NNReductionSpatialMean::result_of(const ImageDescriptor& source) const {
  ImageDescriptor result = source;
  result.width = result.height = 1;
  return result;
}
StatePtr NNReductionSpatialMean::make_state(const ImageDescriptor& source,
                                            const CommandBuffer* on) const {
  return std::make_shared<SpatialMeanState>(window_, source, on, clip_rect_source_);
}
void NNReductionSpatialMeanGradient::set_clip_rect_source(const Region& value) {
  check_region(value, kSourceRectangle);
  set(clip_rect_source_, value);
}
OperationPtr NNReductionSpatialMeanGradient::make_operation() const {
  return gradient_operation(description(), spatial_mean(clip_rect_source_));
}
void NNReductionSpatialMeanGradient::configure(const GradientState& state) {
  if (const auto* own = dynamic_cast<const SpatialMeanState*>(&state)) {
    set_clip_rect_source(own->clip_rect_source);
  }
}
void NNReductionSpatialMeanGradient::check_gradient(const ImageDescriptor& gradient,
                                                    const ImageDescriptor& source) const {
  seen(source, clip_rect_source_);
  if (gradient.width == 1 && gradient.height == 1 &&
      gradient.feature_channels == source.feature_channels) {
    return;
  }
  refuse_shape("expected source gradients " + std::to_string(source.feature_channels) +
               "x1x1 but got " + to_string(gradient));
}

// --- with weights --------------------------------------------------------------------------------

const char* NNReduceBinary::kind() const {
  return reduction_ == NNWeightedReduction::kMean ? "MPSNNReduceFeatureChannelsAndWeightsMean"
                                                  : "MPSNNReduceFeatureChannelsAndWeightsSum";
}
void NNReduceBinary::set_primary_source_clip_rect(const Region& value) {
  check_region(value, kSourceRectangle);
  set(primary_clip_, value);
}
void NNReduceBinary::set_secondary_source_clip_rect(const Region& value) {
  check_region(value, kSourceRectangle);
  set(secondary_clip_, value);
}
ImageDescriptor NNReduceBinary::destination_image_descriptor(
    const ImageDescriptor& primary, const ImageDescriptor& secondary) const {
  ImageDescriptor result = seen(primary, primary_clip_);
  const ImageDescriptor weights = seen(secondary, secondary_clip_);
  if (weights.width != result.width || weights.height != result.height ||
      weights.feature_channels != result.feature_channels) {
    refuse_shape("expected weights of the image's size, " + to_string(result) + ", but got " +
                 to_string(weights));
  }
  result.feature_channels = 1;
  return result;
}
BinaryParts NNReduceBinary::parts(const ImageBatch& primaries, const ImageBatch& secondaries,
                                  const ImageBatch& destinations) const {
  if (!primary_offset_.is_zero() || !secondary_offset_.is_zero()) {
    refuse_use("offsets: set the sources' rectangles");
  }
  const ImageDescriptor primary = seen(primaries[0]->descriptor(), primary_channels_);
  const ImageDescriptor secondary = seen(secondaries[0]->descriptor(), secondary_channels_);
  BinaryParts parts;
  parts.primary = channels_of(primary, primary_channels_);
  parts.secondary = channels_of(secondary, secondary_channels_);
  parts.result = destination_image_descriptor(primary, secondary);
  parts.destination =
      destination_part(destinations[0]->descriptor(), parts.result, false, Offset{});
  return parts;
}
OperationPtr NNReduceBinary::make_operation() const {
  return std::make_shared<WeightedReduction>(description(), reduction_, primary_clip_,
                                             secondary_clip_);
}
StatePtr NNReduceBinary::make_state(const ImageDescriptor&, const ImageDescriptor&,
                                    const CommandBuffer*) const {
  refuse_use("a state: the kernel has no gradient");
}

// --- Gram matrices -------------------------------------------------------------------------------

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
