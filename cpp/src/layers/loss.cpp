// The loss layer: one loss per element or position as ops, then weights and the reduction.
#include <traingraph/errors.h>
#include <traingraph/loss.h>

#include "ir/number_text.h"
#include "layers/checks.h"
#include "layers/loss_sources.h"
#include "layers/loss_terms.h"
#include "layers/real_rows.h"

namespace traingraph {

Shape without_ones(const Shape& shape, std::size_t first) {
  Shape result;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (k < first || shape[k] != 1) result.push_back(shape[k]);
  }
  return result;
}

ir::ValueId labels_like_prediction(const Emitter& e) {
  const ir::Type& labels = e.type(1);
  const Shape& expected = e.type(0).shape;
  if (labels.shape == expected) return e.sources[1];
  if (without_ones(labels.shape) != without_ones(expected)) {
    e.fail_shape("expected labels of the prediction's shape " + to_string(expected) + " but got " +
                 to_string(labels.shape));
  }
  return ops::reshape(e.graph, e.sources[1], expected, labels.batched);
}

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

constexpr const char* kReductionNames[] = {"none",    "sum",     "mean",    "max", "min",
                                           "arg_max", "arg_min", "l1_norm", "any", "all"};

std::string name_of(ReductionType type) {
  const auto number = static_cast<std::size_t>(type);
  return number < std::size(kReductionNames) ? kReductionNames[number] : std::to_string(number);
}

[[noreturn]] void refuse_loss(const std::string& text) { throw InvalidArgument("[Loss] " + text); }

LossDescriptor checked(const LossDescriptor& d) {
  const int type = static_cast<int>(d.type);
  if (type < 0 || type >= kLossCount) {
    refuse_loss("expected a type from 0 to " + std::to_string(kLossCount - 1) + " but got " +
                std::to_string(type));
  }
  if (d.reduction != ReductionType::kNone && d.reduction != ReductionType::kSum &&
      d.reduction != ReductionType::kMean) {
    refuse_loss("expected reduction none, sum or mean but got " + name_of(d.reduction));
  }
  if (!(d.label_smoothing >= 0 && d.label_smoothing < 1)) {
    refuse_loss("expected label smoothing of at least 0 and below 1 but got " +
                short_text(d.label_smoothing));
  }
  if (d.class_count < 0) {
    refuse_loss("expected a class count of at least 0 but got " + std::to_string(d.class_count));
  }
  if (d.type == LossType::kHuber && !(d.delta > 0)) {
    refuse_loss("expected delta above 0 but got " + short_text(d.delta));
  }
  return d;
}

// Losses of positions sum over axis 1.
bool has_classes(LossType type) {
  return type == LossType::kSoftmaxCrossEntropy || type == LossType::kCategoricalCrossEntropy ||
         type == LossType::kCosineDistance;
}

void expect_classes(const Emitter& e) {
  const ir::Type prediction = e.type(0);
  if (prediction.rank() >= 2) return;
  e.fail_shape("expected a prediction (N, K, …) but got " + to_string(prediction.shape));
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

// Smoothed labels, each times the weight of its class and position.
ValueId weighted_labels(const Emitter& e, const LossDescriptor& d, ValueId labels,
                        ValueId weights) {
  const double s = static_cast<double>(d.label_smoothing);
  const std::int64_t classes = d.class_count > 0 ? d.class_count : e.type(0).shape[1];
  ScalarList list{2, {}, {}};
  const int label =
      s == 0 ? 0 : list.add(Scalar::affine, 0, -1, 1 - s, s / static_cast<double>(classes));
  list.results = {list.add(Scalar::mask, label, 1)};
  return ops::elementwise(e.graph, std::move(list), {labels, weights})[0];
}

// prediction (N, K, …), labels (N, K, …) or integers [, weights (N, K, …)] → (N, …).
ValueId softmax_cross_entropy(const Emitter& e, const LossDescriptor& d, ValueId class_weights) {
  const ir::Type logits = e.type(0);
  expect_classes(e);
  Shape position = logits.shape;
  position[1] = 1;
  const bool is_distribution = is_floating_point(e.type(1).data_type);
  if (is_distribution) expect_floating(e, 1, "labels");
  ValueId labels = is_distribution ? labels_like_prediction(e) : class_labels(e, position);
  ir::CrossEntropyAttributes attributes{static_cast<double>(d.label_smoothing), d.class_count};
  if (class_weights != ir::kNone) {
    labels = weighted_labels(e, d, labels, class_weights);
    attributes = {};
  }
  const ValueId loss =
      ops::apply1(e.graph, ir::Op::softmax_cross_entropy, attributes, {e.sources[0], labels});
  position.erase(position.begin() + 1);
  return ops::reshape(e.graph, loss, std::move(position), logits.batched);
}

// prediction (N, K, …), labels (N, K, …), of categorical cross entropy also integers [, weights
// (N, K, …)] → (N, …): -Σ t log y, or 1 - Σ y t, of which each class has its share.
ValueId sum_over_classes(const Emitter& e, const LossDescriptor& d, ValueId class_weights) {
  const ir::Type prediction = e.type(0);
  expect_classes(e);
  Shape position = prediction.shape;
  position[1] = 1;
  const bool categorical = d.type == LossType::kCategoricalCrossEntropy;
  ValueId labels = ir::kNone;
  if (categorical && !is_floating_point(e.type(1).data_type)) {
    labels = ops::apply1(e.graph, ir::Op::one_hot,
                         ir::OneHotAttributes{prediction.shape[1], prediction.data_type},
                         {class_labels(e, position)});
  } else {
    expect_floating(e, 1, "labels");
    labels = labels_like_prediction(e);
  }
  const double share = 1 / static_cast<double>(prediction.shape[1]);
  const bool weighted = class_weights != ir::kNone;
  ScalarList list{weighted ? 3 : 2, {}, {}};
  std::vector<ValueId> inputs{e.sources[0], labels};
  int term = categorical ? add_categorical_loss(list, 0, 1) : list.add(Scalar::label_product, 0, 1);
  if (weighted) {
    if (!categorical) term = list.add(Scalar::affine, term, -1, -1, share);
    term = list.add(Scalar::mask, term, 2);
    inputs.push_back(class_weights);
  }
  list.results = {term};
  ValueId values = ops::elementwise(e.graph, std::move(list), std::move(inputs))[0];
  values = ops::reduce(e.graph, ir::ReduceKind::sum, values, {1});
  if (!categorical && !weighted) {
    values = ops::unary(e.graph, Scalar::affine, values, -1, 1);
  }
  position.erase(position.begin() + 1);
  return ops::reshape(e.graph, values, std::move(position), prediction.batched);
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
    case LossType::kHinge:
      return add_hinge_loss(list, 0, list.add(ir::Scalar::affine, 1, -1, 2, -1));
    case LossType::kLog:
      return add_log_loss(list, 0, 1, static_cast<double>(d.epsilon));
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

// Weights in the shape of the loss values, or of labels that are a distribution.
struct LossWeights {
  ValueId per_value = ir::kNone;
  ValueId per_class = ir::kNone;
};

LossWeights read_weights(Emitter& e, const TensorPtr& tensor, LossType type) {
  const bool is_source = e.sources.size() > 2;
  if (!is_source && tensor == nullptr) return {};
  const ir::Type prediction = e.type(0);
  const ir::Type given =
      is_source ? e.type(2)
                : ir::Type{tensor->descriptor().data_type, tensor->descriptor().shape, false};
  if (is_source) expect_floating(e, 2, "weights");
  if (given.data_type != prediction.data_type) {
    throw DataTypeError(layer_message(e, std::string("expected weights of type ") +
                                             name(prediction.data_type) + " but got " +
                                             name(given.data_type)));
  }
  // Axis 0 of a source is the batch; a tensor of the layer has its elements in any shape like it.
  const auto fits = [&](const Shape& shape) {
    const std::size_t first = is_source ? 1 : 0;
    return without_ones(given.shape, first) == without_ones(shape, first);
  };
  const auto in_shape = [&](const Shape& shape) {
    return is_source ? ops::reshape(e.graph, e.sources[2], shape, given.batched)
                     : e.parameter(tensor, shape);
  };
  Shape values = prediction.shape;
  const bool over_classes = has_classes(type) && prediction.rank() > 1;
  if (over_classes) values.erase(values.begin() + 1);
  if (fits(values)) return {in_shape(values), ir::kNone};
  const bool may_be_per_class = over_classes && is_floating_point(e.type(1).data_type);
  if (may_be_per_class && fits(prediction.shape)) return {ir::kNone, in_shape(prediction.shape)};
  e.fail_shape("expected one weight per loss value, " + to_string(values) +
               (may_be_per_class ? ", or per label, " + to_string(prediction.shape) : "") +
               ", but got " + to_string(given.shape) +
               (is_source ? "" : " in tensor '" + tensor->label() + "'"));
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
  const LossWeights weights = read_weights(e, weights_, d.type);
  ValueId values = ir::kNone;
  switch (d.type) {
    case LossType::kSoftmaxCrossEntropy:
      values = softmax_cross_entropy(e, d, weights.per_class);
      break;
    case LossType::kCategoricalCrossEntropy:
    case LossType::kCosineDistance:
      values = sum_over_classes(e, d, weights.per_class);
      break;
    default:
      values = element_losses(e, d);
      break;
  }
  // 0 removes a value even where it is not finite.
  if (weights.per_value != ir::kNone) {
    values = ops::binary(e.graph, Scalar::mask, values, weights.per_value);
  }

  const auto factor = static_cast<double>(d.weight);
  const ir::Type summed = e.graph.type(values);
  if (d.reduction != ReductionType::kNone) {
    values = ops::reduce_all(e.graph, ir::ReduceKind::sum, real_rows(e.lowering, values));
  }
  if (d.reduction == ReductionType::kMean) {
    const auto count = static_cast<double>(summed.elements());
    values = mean_of_rows(e.lowering, values, summed, factor, count);
  } else if (factor != 1) {
    values = ops::unary(e.graph, Scalar::scale, values, factor);
  }
  e.result(values);
}

void ExpressionLoss::emit(Emitter& e) const {
  e.expect_sources(1, 1);
  expect_floating(e, 0, "a value");
  const ir::Type summed = e.type(0);
  const ValueId sum =
      ops::reduce_all(e.graph, ir::ReduceKind::sum, real_rows(e.lowering, e.sources[0]));
  const auto count = static_cast<double>(summed.elements());
  e.result(mean_of_rows(e.lowering, sum, summed, 1, count));
}

}  // namespace traingraph
