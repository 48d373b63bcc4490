// CNNArithmeticGradient: dy times the scales and, for a product, the other source, masked where the
// result was clamped and summed over broadcast axes.
#include <traingraph/errors.h>
#include <traingraph/mps/arithmetic.h>

#include "mps/recording/emission.h"
#include "mps/recording/image_parts.h"

namespace traingraph::mps {
namespace {

using ir::Scalar;
using ir::ValueId;

constexpr const char* kArithmeticGradientKinds[] = {"MPSCNNAddGradient", "MPSCNNSubtractGradient",
                                                    "MPSCNNMultiplyGradient"};

// dy, other [, mask] → gradient of the source. Constants: channels, rows and columns that were read
// of the source, and the first row and column.
class ArithmeticGradientOperation final : public Operation {
 public:
  ArithmeticGradientOperation(const std::string& subject_in, bool multiplies,
                              const CNNArithmeticParameters& p)
      : Operation(subject_in), multiplies_(multiplies), p_(p) {}

  void emit(Emission& e) const override {
    const DataType type = e.type(0).data_type;
    ValueId g = e.inputs[0];
    if (e.inputs.size() > 2) {
      g = ops::binary(e.graph, Scalar::mask, g, ops::cast(e.graph, e.inputs[2], type));
    }
    double scale = static_cast<double>(p_.primary_scale);
    if (multiplies_) {
      g = ops::binary(e.graph, Scalar::multiply, g, ops::cast(e.graph, e.inputs[1], type));
      scale *= static_cast<double>(p_.secondary_scale);
    }
    if (scale != 1) g = ops::unary(e.graph, Scalar::scale, g, scale);
    const ir::Type whole{type, e.results[0].shape, false};
    ir::Type used = whole;
    ImagePart part;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      part.extent[axis] = static_cast<std::int64_t>(e.constants[axis]);
      used.shape[axis + 1] = part.extent[axis];
    }
    part.first = {0, static_cast<std::int64_t>(e.constants[3]),
                  static_cast<std::int64_t>(e.constants[4])};
    g = ops::reduce_to(e.graph, g, used);
    // Elements that were not read have no part in the result.
    e.set(0, write_part(e.graph, ops::filled(e.graph, whole, 0), g, part));
  }

 private:
  bool multiplies_;
  CNNArithmeticParameters p_;
};

}  // namespace

CNNArithmeticGradient::CNNArithmeticGradient(const Device& device, CNNArithmeticOperation operation,
                                             bool is_secondary_source_filter)
    : CNNGradientKernel(device), operation_(operation), secondary_(is_secondary_source_filter) {
  if (operation >= CNNArithmeticOperation::kDivide) {
    const bool divides = operation == CNNArithmeticOperation::kDivide;
    throw Unsupported(std::string(divides ? "[MPSCNNDivide]" : "[MPSNNCompare]") +
                      " a gradient: the kernel has none");
  }
}

const char* CNNArithmeticGradient::kind() const {
  return kArithmeticGradientKinds[static_cast<int>(operation_)];
}

void CNNArithmeticGradient::set_parameters(const CNNArithmeticParameters& value) {
  value.check(description());
  set(parameters_, value);
}

OperationPtr CNNArithmeticGradient::make_operation() const {
  return std::make_shared<ArithmeticGradientOperation>(
      description(), operation_ == CNNArithmeticOperation::kMultiply, parameters_);
}

bool CNNArithmeticGradient::takes(const State& state) const {
  const auto* own = dynamic_cast<const CNNArithmeticGradientState*>(&state);
  return own != nullptr && own->operation() == operation_;
}

void CNNArithmeticGradient::configure(const GradientState& state) {
  const auto p = gradient_parameters(
      operation_, static_cast<const CNNArithmeticGradientState&>(state).parameters(), secondary_);
  CNNArithmeticParameters changed = parameters_;
  changed.primary_scale = p.primary_scale;
  changed.secondary_scale = p.secondary_scale;
  changed.secondary_strides = p.secondary_strides;
  set_parameters(changed);
}

ImageDescriptor CNNArithmeticGradient::secondary_of(const GradientState& state) const {
  const auto& own = static_cast<const CNNArithmeticGradientState&>(state);
  return secondary_ ? own.primary() : own.secondary();
}

ImageDescriptor CNNArithmeticGradient::result_of(const GradientState& state) const {
  const auto& own = static_cast<const CNNArithmeticGradientState&>(state);
  return secondary_ ? own.secondary() : own.primary();
}

void CNNArithmeticGradient::add_operands(Recording& recording, const StateBatch& states) {
  ImageBatch masks;
  for (const StatePtr& state : states) {
    const auto& own = static_cast<const CNNArithmeticGradientState&>(*state);
    if (own.mask() != nullptr) masks.push_back(own.mask());
  }
  if (!masks.empty()) recording.input(masks);
  const auto& state = static_cast<const CNNArithmeticGradientState&>(*states[0]);
  const CNNArithmeticParameters& forward = state.parameters();
  const ImagePart read =
      strided_part(result_of(state), own_part(state),
                   secondary_ ? forward.secondary_strides : forward.primary_strides,
                   state.written()->height, state.written()->width);
  for (std::int64_t extent : read.extent) recording.constant(static_cast<std::uint64_t>(extent));
  recording.constant(static_cast<std::uint64_t>(read.first[1]));
  recording.constant(static_cast<std::uint64_t>(read.first[2]));
}

const SourcePart& CNNArithmeticGradient::own_part(const CNNArithmeticGradientState& state) const {
  return secondary_ ? state.secondary_part() : state.primary_part();
}

void CNNArithmeticGradient::configure_parts(const GradientState& state) {
  const auto& own = static_cast<const CNNArithmeticGradientState&>(state);
  const SourcePart& other = secondary_ ? own.primary_part() : own.secondary_part();
  write_everything();
  destination_channel_ = own_part(own).channels.offset;
  secondary_channels_ = other.channels;
  window_.offset = other.offset;
}

GradientParts CNNArithmeticGradient::parts(const ImageDescriptor& gradient,
                                           const ImageDescriptor& other,
                                           const GradientState& state) const {
  const auto& own = static_cast<const CNNArithmeticGradientState&>(state);
  if (!own.written()) {
    refuse("expected a state that the forward kernel was encoded with but got a new one");
  }
  const ImageDescriptor &result = *own.written(), used = seen(gradient, primary_channels_);
  if (used.height != result.height || used.width != result.width ||
      used.feature_channels != result.feature_channels) {
    refuse_shape("expected source gradients " + to_string(result) +
                 ", what the forward kernel has written, but got " + to_string(gradient));
  }
  seen(other, secondary_channels_);  // whether there are any
  GradientParts parts{channels_of(used, primary_channels_),
                      strided_part(other, {secondary_channels_, window_.offset},
                                   parameters_.secondary_strides, result.height, result.width),
                      seen(result_of(state), own_part(own).channels), own_part(own).offset};
  check_inside(parts.secondary, other, "source images");
  return parts;
}

}  // namespace traingraph::mps
