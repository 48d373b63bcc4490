#include <traingraph/mps/arithmetic.h>

#include <algorithm>
#include <utility>

#include <traingraph/errors.h>

#include "mps/emission.h"

namespace traingraph::mps {
namespace {

using ir::Scalar;
using ir::ScalarList;
using ir::ValueId;

constexpr const char* kKinds[] = {"MPSCNNAdd", "MPSCNNSubtract", "MPSCNNMultiply", "MPSCNNDivide",
                                  "MPSNNCompare"};
constexpr const char* kGradientKinds[] = {"MPSCNNAddGradient", "MPSCNNSubtractGradient",
                                          "MPSCNNMultiplyGradient"};
// A comparison begins with the difference.
constexpr Scalar kFunctions[] = {Scalar::add, Scalar::subtract, Scalar::multiply, Scalar::divide,
                                 Scalar::subtract};

// 1 or 0 for a difference d and a threshold t, with functions that give their first operand for a
// second one that is NaN.
int compared(ScalarList& list, NNComparisonType type, int d, double t) {
  const int one = list.add(Scalar::constant, -1, -1, 1);
  const auto no = [&](int x) { return list.add(Scalar::subtract, one, x); };
  const auto differ = [&] { return list.add(Scalar::hard_shrink_gradient, one, d, t); };
  // x <= t
  const auto at_most = [&](int x) { return no(list.add(Scalar::threshold_gradient, one, x, t)); };
  switch (type) {
    case NNComparisonType::kEqual:
      break;
    case NNComparisonType::kNotEqual:
      return differ();
    case NNComparisonType::kLess:
      return list.add(Scalar::multiply, at_most(d), differ());
    case NNComparisonType::kLessOrEqual:
      return at_most(d);
    case NNComparisonType::kGreater:
      return list.add(Scalar::multiply, at_most(list.add(Scalar::negate, d)), differ());
    case NNComparisonType::kGreaterOrEqual:
      return at_most(list.add(Scalar::negate, d));
  }
  return no(differ());
}

// By axis 1, 2, 3 of (N, C, H, W).
std::int64_t stride_along(const BroadcastStrides& s, int axis) {
  return axis == 1 ? s.feature_channels : (axis == 2 ? s.y : s.x);
}

// The first element along every axis of stride 0.
ValueId cut(Emission& e, ValueId x, const BroadcastStrides& strides) {
  for (int axis = 1; axis < 4; ++axis) {
    if (stride_along(strides, axis) != 0) continue;
    if (e.graph.type(x).shape[static_cast<std::size_t>(axis)] == 1) continue;
    x = ops::apply1(e.graph, ir::Op::slice, ir::SliceAttributes{axis, 0, 1}, {x});
  }
  return x;
}

void check_parameters(const CNNArithmeticParameters& p, const std::string& who) {
  for (const BroadcastStrides* s : {&p.primary_strides, &p.secondary_strides}) {
    for (int axis = 1; axis < 4; ++axis) {
      const std::int64_t stride = stride_along(*s, axis);
      if (stride == 0 || stride == 1) continue;
      throw InvalidArgument("[" + who + "] expected strides of 0 or 1 but got " +
                            std::to_string(stride));
    }
  }
  const int comparison = static_cast<int>(p.comparison);
  if (comparison < 0 || comparison > static_cast<int>(NNComparisonType::kGreaterOrEqual)) {
    throw InvalidArgument("[" + who + "] expected a type of comparison from 0 to 5 but got " +
                          std::to_string(comparison));
  }
  if (!(p.threshold >= 0)) {
    throw InvalidArgument("[" + who + "] expected a threshold of 0 or more but got " +
                          std::to_string(p.threshold));
  }
}

// a, b → y [, mask]
class ArithmeticOperation final : public Operation {
 public:
  ArithmeticOperation(const std::string& subject_in, CNNArithmeticOperation operation,
                      const CNNArithmeticParameters& p)
      : Operation(subject_in),
        function_(kFunctions[static_cast<int>(operation)]),
        compares_(operation == CNNArithmeticOperation::kCompare),
        p_(p) {}

  void emit(Emission& e) const override {
    const ValueId a = cut(e, e.inputs[0], p_.primary_strides);
    const DataType type = e.type(0).data_type;
    const ValueId b = ops::cast(e.graph, cut(e, e.inputs[1], p_.secondary_strides), type);
    ScalarList list{2, {}, {}};
    const int x = scaled(list, 0, p_.primary_scale);
    int y = list.add(function_, x, scaled(list, 1, p_.secondary_scale));
    if (compares_) y = compared(list, p_.comparison, y, static_cast<double>(p_.threshold));
    if (p_.bias != 0) y = list.add(Scalar::affine, y, -1, 1, static_cast<double>(p_.bias));
    const auto least = static_cast<double>(p_.minimum_value);
    const auto most = static_cast<double>(p_.maximum_value);
    list.results = {y};
    if (p_.clamps()) {
      list.results = {list.add(Scalar::clip, y, -1, least, most)};
      const int one = list.add(Scalar::constant, -1, -1, 1);
      list.results.push_back(list.add(Scalar::clamp_gradient, one, y, least, most));
    }
    const std::vector<ValueId> found = ops::elementwise(e.graph, std::move(list), {a, b});
    for (std::size_t k = 0; k < e.results.size(); ++k) {
      e.set(k, ops::broadcast(e.graph, found[k], {type, e.results[k].shape, false}));
    }
  }

 private:
  static int scaled(ScalarList& list, int x, float scale) {
    return scale == 1 ? x : list.add(Scalar::scale, x, -1, static_cast<double>(scale));
  }

  Scalar function_;
  bool compares_;
  CNNArithmeticParameters p_;
};

// dy, other [, mask] → gradient of the source. Constants: the source's own strides.
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
      const ValueId other = cut(e, e.inputs[1], p_.secondary_strides);
      g = ops::binary(e.graph, Scalar::multiply, g, ops::cast(e.graph, other, type));
      scale *= static_cast<double>(p_.secondary_scale);
    }
    if (scale != 1) g = ops::unary(e.graph, Scalar::scale, g, scale);
    const ir::Type whole{type, e.results[0].shape, false};
    ir::Type used = whole;
    for (std::size_t axis = 1; axis < 4; ++axis) {
      if (e.constants[axis - 1] == 0) used.shape[axis] = 1;
    }
    g = ops::reduce_to(e.graph, g, used);
    // Elements that a stride of 0 passed over have no part in the result.
    for (int axis = 1; axis < 4; ++axis) {
      const auto at = static_cast<std::size_t>(axis);
      ir::Type rest = e.graph.type(g);
      rest.shape[at] = whole.shape[at] - used.shape[at];
      if (rest.shape[at] == 0) continue;
      g = ops::apply1(e.graph, ir::Op::concatenate, ir::AxisAttributes{axis},
                      {g, ops::filled(e.graph, rest, 0)});
    }
    e.set(0, g);
  }

 private:
  bool multiplies_;
  CNNArithmeticParameters p_;
};

}  // namespace

bool CNNArithmeticParameters::clamps() const {
  constexpr float kMost = std::numeric_limits<float>::max();
  return minimum_value > -kMost || maximum_value < kMost;
}

CNNArithmeticParameters gradient_parameters(CNNArithmeticOperation operation,
                                            CNNArithmeticParameters forward,
                                            bool is_secondary_source_filter) {
  if (!is_secondary_source_filter) return forward;
  std::swap(forward.primary_scale, forward.secondary_scale);
  std::swap(forward.primary_strides, forward.secondary_strides);
  if (operation == CNNArithmeticOperation::kSubtract) forward.primary_scale *= -1;
  return forward;
}

CNNArithmeticGradientState::CNNArithmeticGradientState(CNNArithmeticOperation operation,
                                                       const CNNArithmeticParameters& parameters,
                                                       const ImageDescriptor& primary,
                                                       const ImageDescriptor& secondary,
                                                       const CommandBuffer* temporary_on)
    : GradientState({}, primary, temporary_on),
      operation_(operation),
      parameters_(parameters),
      secondary_(secondary) {}

// --- arithmetic ----------------------------------------------------------------------------------

const char* CNNArithmetic::kind() const { return kKinds[static_cast<int>(operation_)]; }

void CNNArithmetic::set_parameters(const CNNArithmeticParameters& value) {
  check_parameters(value, description());
  set(parameters_, value);
}

ImageDescriptor CNNArithmetic::destination_image_descriptor(
    const ImageDescriptor& primary, const ImageDescriptor& secondary) const {
  ImageDescriptor result = primary;
  const auto join = [&](int axis, std::int64_t ImageDescriptor::* extent) {
    const bool a = stride_along(parameters_.primary_strides, axis) != 0;
    const bool b = stride_along(parameters_.secondary_strides, axis) != 0;
    if (!a && b) result.*extent = secondary.*extent;
    if (a && b && primary.*extent != secondary.*extent) {
      refuse_shape("expected secondary images of the primary ones' size, " + to_string(primary) +
                   ", or a stride of 0, but got " + to_string(secondary));
    }
  };
  join(1, &ImageDescriptor::feature_channels);
  join(2, &ImageDescriptor::height);
  join(3, &ImageDescriptor::width);
  return result;
}

OperationPtr CNNArithmetic::make_operation() const {
  return std::make_shared<ArithmeticOperation>(description(), operation_, parameters_);
}

StatePtr CNNArithmetic::make_state(const ImageDescriptor& primary, const ImageDescriptor& secondary,
                                   const CommandBuffer* on) const {
  return std::make_shared<CNNArithmeticGradientState>(operation_, parameters_, primary, secondary,
                                                      on);
}

void CNNArithmetic::add_results(CommandBuffer& buffer, Recording& recording,
                                const StateBatch& states, const ImageDescriptor& result) const {
  if (states.empty()) return;
  ImageBatch masks;  // one per state
  if (parameters_.clamps()) {
    const bool temporary = states[0]->is_temporary();
    if (result.number_of_images == 1) {
      ImageDescriptor all = result;
      all.number_of_images = static_cast<std::int64_t>(states.size());
      masks = make_images(buffer, all, temporary);
    } else {
      for (std::size_t k = 0; k < states.size(); ++k) {
        masks.push_back(temporary ? Image::temporary(buffer, result)
                                  : Image::create(device(), result));
      }
    }
  }
  for (std::size_t k = 0; k < states.size(); ++k) {
    auto* state = dynamic_cast<CNNArithmeticGradientState*>(states[k].get());
    if (state == nullptr) {
      recording.cancel();
      refuse("expected an MPSCNNArithmeticGradientState but got " + states[k]->description());
    }
    state->parameters_ = parameters_;
    state->mask_ = masks.empty() ? nullptr : masks[k];
  }
  if (!masks.empty()) recording.result(masks);
}

// --- gradient ------------------------------------------------------------------------------------

CNNArithmeticGradient::CNNArithmeticGradient(const Device& device, CNNArithmeticOperation operation,
                                             bool is_secondary_source_filter)
    : CNNGradientKernel(device), operation_(operation), secondary_(is_secondary_source_filter) {
  if (operation >= CNNArithmeticOperation::kDivide) {
    throw Unsupported("[" + std::string(kKinds[static_cast<int>(operation)]) +
                      "] a gradient: the kernel has none");
  }
}

const char* CNNArithmeticGradient::kind() const {
  return kGradientKinds[static_cast<int>(operation_)];
}

void CNNArithmeticGradient::set_parameters(const CNNArithmeticParameters& value) {
  check_parameters(value, description());
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
  const auto& forward = static_cast<const CNNArithmeticGradientState&>(*states[0]).parameters();
  const BroadcastStrides& own = secondary_ ? forward.secondary_strides : forward.primary_strides;
  for (int axis = 1; axis < 4; ++axis) {
    recording.constant(static_cast<std::uint64_t>(stride_along(own, axis)));
  }
}

}  // namespace traingraph::mps
