// CNNArithmetic as one scalar list: scales, the operation or comparison, bias and clamp, with the
// clamp mask as a second result.
#include <traingraph/mps/arithmetic.h>

#include <algorithm>
#include <utility>

#include <traingraph/errors.h>

#include "ir/number_text.h"
#include "mps/recording/emission.h"
#include "runtime/numbers/range.h"

namespace traingraph::mps {
namespace {

using ir::Scalar;
using ir::ScalarList;
using ir::ValueId;

constexpr const char* kArithmeticKinds[] = {"MPSCNNAdd", "MPSCNNSubtract", "MPSCNNMultiply",
                                            "MPSCNNDivide", "MPSNNCompare"};
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

// a, b → y [, mask]; a and b have one element along an axis of stride 0.
class ArithmeticOperation final : public Operation {
 public:
  ArithmeticOperation(const std::string& subject_in, CNNArithmeticOperation operation,
                      const CNNArithmeticParameters& p)
      : Operation(subject_in),
        function_(kFunctions[static_cast<int>(operation)]),
        compares_(operation == CNNArithmeticOperation::kCompare),
        p_(p) {}

  void emit(Emission& e) const override {
    const ValueId a = e.inputs[0];
    const DataType type = e.type(0).data_type;
    const ValueId b = ops::cast(e.graph, e.inputs[1], type);
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

}  // namespace

bool CNNArithmeticParameters::clamps() const {
  constexpr float kMost = std::numeric_limits<float>::max();
  return minimum_value > -kMost || maximum_value < kMost;
}

void CNNArithmeticParameters::check(const std::string& who) const {
  for (const BroadcastStrides* s : {&primary_strides, &secondary_strides}) {
    for (int axis = 1; axis < 4; ++axis) {
      const std::int64_t stride = stride_along(*s, axis);
      if (stride == 0 || stride == 1) continue;
      throw InvalidArgument("[" + who + "] expected strides of 0 or 1 but got " +
                            std::to_string(stride));
    }
  }
  for (const auto& [name, value] : {std::pair("primary_scale", primary_scale),
                                    {"secondary_scale", secondary_scale},
                                    {"bias", bias}}) {
    expect_in(kFinite, who, name, static_cast<double>(value));
  }
  for (const auto& [name, value] :
       {std::pair("minimum_value", minimum_value), {"maximum_value", maximum_value}}) {
    expect_in(kAnyNumber, who, name, static_cast<double>(value));
  }
  const int type = static_cast<int>(comparison);
  if (type < 0 || type > static_cast<int>(NNComparisonType::kGreaterOrEqual)) {
    throw InvalidArgument("[" + who + "] expected a type of comparison from 0 to 5 but got " +
                          std::to_string(type));
  }
  if (!(threshold >= 0)) {
    throw InvalidArgument("[" + who + "] expected a threshold of 0 or more but got " +
                          short_text(threshold));
  }
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

// --- arithmetic ----------------------------------------------------------------------------------

const char* CNNArithmetic::kind() const { return kArithmeticKinds[static_cast<int>(operation_)]; }

void CNNArithmetic::set_parameters(const CNNArithmeticParameters& value) {
  value.check(description());
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
    const auto& allocator =
        temporary ? TemporaryImage::default_allocator() : Image::default_allocator();
    masks = allocator->image_batch(buffer, result, this, static_cast<std::int64_t>(states.size()));
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

}  // namespace traingraph::mps
