#include <traingraph/errors.h>
#include <traingraph/loss.h>

#include "layers/checks.h"

namespace traingraph {
namespace {

using ir::Scalar;
using ir::ScalarList;
using ir::ValueId;

constexpr const char* kLossNames[] = {"Absolute Error",
                                      "Mean Squared Error",
                                      "Softmax Cross Entropy",
                                      "Sigmoid Cross Entropy",
                                      "Categorical Cross Entropy",
                                      "Hinge",
                                      "Huber",
                                      "Cosine Distance",
                                      "Log"};
constexpr int kLossCount = sizeof(kLossNames) / sizeof(kLossNames[0]);

const char* name_of(LossType type) { return kLossNames[static_cast<int>(type)]; }

[[noreturn]] void refuse_loss(const std::string& text) { throw InvalidArgument("[Loss] " + text); }

LossDescriptor checked(const LossDescriptor& d) {
  const int type = static_cast<int>(d.type);
  if (type < 0 || type >= kLossCount) {
    refuse_loss("expected a type from 0 to " + std::to_string(kLossCount - 1) + " but got " +
                std::to_string(type));
  }
  if (d.reduction != ReductionType::kNone && d.reduction != ReductionType::kSum &&
      d.reduction != ReductionType::kMean) {
    refuse_loss("expected reduction none, sum or mean but got reduction type " +
                std::to_string(static_cast<int>(d.reduction)));
  }
  if (!(d.label_smoothing >= 0 && d.label_smoothing < 1)) {
    refuse_loss("expected label smoothing of at least 0 and below 1 but got " +
                std::to_string(d.label_smoothing));
  }
  if (d.class_count < 0) {
    refuse_loss("expected a class count of at least 0 but got " + std::to_string(d.class_count));
  }
  if (d.type == LossType::kHuber && !(d.delta > 0)) {
    refuse_loss("expected delta above 0 but got " + std::to_string(d.delta));
  }
  return d;
}

// Extents from axis 1 on that are not 1, behind axis 0.
Shape without_ones(const Shape& shape) {
  Shape result;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (k == 0 || shape[k] != 1) result.push_back(shape[k]);
  }
  return result;
}

// Integer labels (N, …) with or without a class axis of extent 1 → (N, 1, …).
ValueId class_labels(const Emitter& e, const Shape& expected) {
  const ir::Type& labels = e.type(1);
  if (labels.data_type != DataType::kInt32 && labels.data_type != DataType::kInt64) {
    throw DataTypeError(layer_message(
        e, std::string("expected labels of floating-point numbers, int32 or int64 but got ") +
               name(labels.data_type)));
  }
  if (without_ones(labels.shape) != without_ones(expected)) {
    e.fail_shape("expected integer labels " + to_string(expected) +
                 ", the class axis of extent 1 or left out, but got " + to_string(labels.shape));
  }
  return ops::reshape(e.graph, e.sources[1], expected, labels.batched);
}

// Labels in the prediction's shape, of which extents of 1 behind axis 0 may be left out.
ValueId labels_like_prediction(const Emitter& e) {
  const ir::Type& labels = e.type(1);
  const Shape& expected = e.type(0).shape;
  if (labels.shape == expected) return e.sources[1];
  if (without_ones(labels.shape) != without_ones(expected)) {
    e.fail_shape("expected labels of the prediction's shape " + to_string(expected) + " but got " +
                 to_string(labels.shape));
  }
  return ops::reshape(e.graph, e.sources[1], expected, labels.batched);
}

// prediction (N, K, …), labels (N, K, …) or integers → (N, …).
ValueId softmax_cross_entropy(const Emitter& e, const LossDescriptor& d) {
  const ir::Type& logits = e.type(0);
  if (logits.rank() < 2) {
    e.fail_shape("expected a prediction (N, K, …) but got " + to_string(logits.shape));
  }
  Shape position = logits.shape;
  position[1] = 1;
  const bool is_distribution = is_floating_point(e.type(1).data_type);
  if (is_distribution) expect_floating(e, 1, "labels");
  const ValueId labels = is_distribution ? labels_like_prediction(e) : class_labels(e, position);
  const ir::CrossEntropyAttributes attributes{static_cast<double>(d.label_smoothing),
                                              d.class_count};
  const ValueId loss =
      ops::apply1(e.graph, ir::Op::softmax_cross_entropy, attributes, {e.sources[0], labels});
  position.erase(position.begin() + 1);
  return ops::reshape(e.graph, loss, std::move(position), logits.batched);
}

// One loss per element over registers 0 (prediction) and 1 (label).
int add_element_loss(ScalarList& list, const LossDescriptor& d) {
  switch (d.type) {
    case LossType::kMeanAbsoluteError:
      return list.add(Scalar::absolute, list.add(Scalar::subtract, 0, 1));
    case LossType::kMeanSquaredError:
      return list.add(Scalar::square, list.add(Scalar::subtract, 0, 1));
    case LossType::kHuber:
      return list.add(Scalar::huber, 0, 1, static_cast<double>(d.delta));
    default: {
      const double s = static_cast<double>(d.label_smoothing);
      const int label = s == 0 ? 1 : list.add(Scalar::affine, 1, -1, 1 - s, s / 2);
      return list.add(Scalar::sigmoid_cross_entropy, 0, label);
    }
  }
}

// prediction, labels (…) → (…).
ValueId element_losses(const Emitter& e, const LossDescriptor& d) {
  expect_floating(e, 1, "labels");
  ScalarList list{2, {}, {}};
  list.results = {add_element_loss(list, d)};
  return ops::elementwise(e.graph, std::move(list), {e.sources[0], labels_like_prediction(e)})[0];
}

// Weights of the labels' size (N, K, …), one value repeated over the classes → (N, …); kNone where
// they are not of that size.
ValueId one_per_position(const Emitter& e, ValueId weights, const ir::Type& values) {
  const ir::Type& prediction = e.type(0);
  const ir::Type given = e.graph.type(weights);
  const bool repeated = prediction.rank() > 1 && prediction.elements() != values.elements() &&
                        without_ones(given.shape) == without_ones(prediction.shape);
  if (!repeated) return ir::kNone;
  const ValueId all = ops::reshape(e.graph, weights, prediction.shape, given.batched);
  const ValueId first = ops::apply1(e.graph, ir::Op::slice, ir::SliceAttributes{1, 0, 1}, {all});
  return ops::reshape(e.graph, first, values.shape, given.batched);
}

// One weight per loss value; 0 removes a value even where it is not finite.
ValueId weighted(Emitter& e, ValueId values, const TensorPtr& tensor) {
  const ir::Type type = e.graph.type(values);
  ValueId weights = ir::kNone;
  if (e.sources.size() > 2) {
    expect_floating(e, 2, "weights");
    if (const ValueId one = one_per_position(e, e.sources[2], type); one != ir::kNone) {
      return ops::binary(e.graph, Scalar::mask, values, one);
    }
    if (e.type(2).elements() != type.elements() ||
        without_ones(e.type(2).shape) != without_ones(type.shape)) {
      e.fail_shape("expected one weight per loss value, " + to_string(type.shape) + ", but got " +
                   to_string(e.type(2).shape));
    }
    weights = ops::reshape(e.graph, e.sources[2], type.shape, e.type(2).batched);
  } else {
    const DataType own = tensor->descriptor().data_type;
    if (own != type.data_type) {
      throw DataTypeError(layer_message(e, std::string("expected weights of type ") +
                                               name(type.data_type) + " but got " + name(own)));
    }
    const Shape& shape = tensor->descriptor().shape;
    const bool repeated = element_count(shape) != type.elements() &&
                          without_ones(shape) == without_ones(e.type(0).shape);
    weights = e.parameter(tensor, repeated ? e.type(0).shape : type.shape);
    if (repeated) weights = one_per_position(e, weights, type);
  }
  return ops::binary(e.graph, Scalar::mask, values, weights);
}

}  // namespace

Loss::Loss(LossDescriptor descriptor, TensorPtr weights)
    : Layer("Loss"), descriptor_(checked(descriptor)), weights_(std::move(weights)) {}

std::string Loss::description() const { return std::string("Loss ") + name_of(descriptor_.type); }

// prediction, labels [, weights] → one value per element or position, or a scalar of rank 0.
void Loss::emit(Emitter& e) const {
  const LossDescriptor& d = descriptor_;
  e.expect_sources(2, 3);
  expect_floating(e, 0, "a prediction");
  ValueId values = ir::kNone;
  switch (d.type) {
    case LossType::kSoftmaxCrossEntropy:
      values = softmax_cross_entropy(e, d);
      break;
    case LossType::kMeanAbsoluteError:
    case LossType::kMeanSquaredError:
    case LossType::kHuber:
    case LossType::kSigmoidCrossEntropy:
      values = element_losses(e, d);
      break;
    default:
      throw Unsupported(layer_message(
          e, std::string("loss type ") + name_of(d.type) + ", which this version does not have"));
  }
  if (e.sources.size() > 2 || weights_ != nullptr) values = weighted(e, values, weights_);

  double factor = static_cast<double>(d.weight);
  if (d.reduction == ReductionType::kMean) {
    factor /= static_cast<double>(e.graph.type(values).elements());
  }
  if (d.reduction != ReductionType::kNone) {
    values = ops::reduce_all(e.graph, ir::ReduceKind::sum, values);
  }
  if (factor != 1) values = ops::unary(e.graph, Scalar::scale, values, factor);
  e.result(values);
}

}  // namespace traingraph
