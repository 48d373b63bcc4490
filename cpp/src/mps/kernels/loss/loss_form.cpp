// Formulas of the losses as ops: value per element, weights, label smoothing, reduction, and the
// derivatives that Apple's headers print.
#include "mps/kernels/loss/loss_form.h"

#include <traingraph/errors.h>
#include <traingraph/loss.h>

#include "ir/number_text.h"
#include "layers/loss_terms.h"

namespace traingraph::mps {
namespace {

using ir::Scalar;
using ir::ScalarList;
using ir::ValueId;

// The losses that ML Compute's layer has.
bool has_layer(CNNLossType type) {
  return type == CNNLossType::kMeanAbsoluteError || type == CNNLossType::kMeanSquaredError ||
         type == CNNLossType::kSoftMaxCrossEntropy || type == CNNLossType::kSigmoidCrossEntropy ||
         type == CNNLossType::kHuber;
}

LossType layer_type(CNNLossType type) {
  return type == CNNLossType::kHuber ? LossType::kHuber : static_cast<LossType>(type);
}

// One value per element over the prediction, register 0, and the label, register 1, of images that
// have so many elements.
int other_loss(ScalarList& list, const CNNLossDescriptor& d, double elements) {
  switch (d.loss_type) {
    case CNNLossType::kCategoricalCrossEntropy:
      return add_categorical_loss(list, 0, 1);
    case CNNLossType::kCosineDistance:  // 1 - sum(t y): each element has its share of the 1
      return list.add(Scalar::affine, list.add(Scalar::multiply, 0, 1), -1, -1, 1 / elements);
    case CNNLossType::kHinge:
      return add_hinge_loss(list, 0, 1);
    case CNNLossType::kLog:
      return add_log_loss(list, 0, 1, static_cast<double>(d.epsilon));
    default: {  // t (log t - y), 0 where t is 0
      const int entropy = list.add(Scalar::subtract, list.add(Scalar::log, 1), 0);
      return list.add(Scalar::mask, entropy, 1);
    }
  }
}

// A label of softmax cross entropy over so many channels, smoothed.
int smooth(ScalarList& list, const CNNLossDescriptor& d, std::int64_t channels, int label) {
  const auto smoothing = static_cast<double>(d.label_smoothing);
  const auto classes =
      static_cast<double>(d.number_of_classes == 0 ? channels : d.number_of_classes);
  return list.add(Scalar::affine, label, -1, 1 - smoothing, smoothing / classes);
}

// Whether each label has a weight, of which a pixel has one value.
bool has_class_weights(const Emission& e, const CNNLossDescriptor& d, const LossTerms& terms) {
  return d.loss_type == CNNLossType::kSoftMaxCrossEntropy && terms.weights != ir::kNone &&
         e.graph.type(terms.weights).shape[1] != 1;
}

// Labels in the type of the prediction; with weights of classes each times its own.
ValueId labels_of(Emission& e, const CNNLossDescriptor& d, const LossTerms& terms) {
  const ir::Type type = e.graph.type(terms.prediction);
  const ValueId labels = ops::cast(e.graph, terms.labels, type.data_type);
  if (!has_class_weights(e, d, terms)) return labels;
  ScalarList list{2, {}, {}};
  list.results = {list.add(Scalar::mask, smooth(list, d, type.shape[1], 0), 1)};
  return ops::elementwise(e.graph, std::move(list),
                          {labels, ops::cast(e.graph, terms.weights, type.data_type)})[0];
}

std::vector<int> reduced_axes(const CNNLossDescriptor& d) {
  return d.reduce_across_batch ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{1, 2, 3};
}

// How many weights are not 0, at least 1, per image or in all.
ValueId counted(Emission& e, const CNNLossDescriptor& d, ValueId weights, DataType type) {
  ScalarList list{1, {}, {}};
  const int one = list.add(Scalar::constant, -1, -1, 1);
  list.results = {list.add(Scalar::where_nonzero, one, 0, 0)};
  const ValueId marks =
      ops::elementwise(e.graph, std::move(list), {ops::cast(e.graph, weights, type)})[0];
  const ValueId count = ops::reduce(e.graph, ir::ReduceKind::sum, marks, reduced_axes(d));
  return ops::binary(e.graph, Scalar::maximum, count, ops::filled(e.graph, e.graph.type(count), 1));
}

// Times the weights of the labels and of the descriptor. 0 removes a value even where it is not
// finite.
ValueId weighted(Emission& e, const CNNLossDescriptor& d, const LossTerms& terms, ValueId values) {
  if (terms.weights != ir::kNone && !has_class_weights(e, d, terms)) {
    const DataType type = e.graph.type(values).data_type;
    values = ops::binary(e.graph, Scalar::mask, values, ops::cast(e.graph, terms.weights, type));
  }
  if (terms.running_weight) {
    const DataType type = e.graph.type(values).data_type;
    return ops::binary(e.graph, Scalar::multiply, values, e.number(0, type));
  }
  if (d.weight == 1) return values;
  return ops::unary(e.graph, Scalar::scale, values, static_cast<double>(d.weight));
}

}  // namespace

ImageDescriptor values_of(const CNNLossDescriptor& d, const ImageDescriptor& prediction) {
  ImageDescriptor result = prediction;
  if (d.loss_type == CNNLossType::kSoftMaxCrossEntropy) result.feature_channels = 1;
  return result;
}

ImageDescriptor weights_of(const CNNLossDescriptor& d, const ImageDescriptor& prediction,
                           const ImageDescriptor& weights) {
  const bool per_class = weights.feature_channels == prediction.feature_channels;
  return per_class ? prediction : values_of(d, prediction);
}

void check_loss(const CNNLossDescriptor& d, const std::string& who) {
  const std::string subject = "[" + who + "] ";
  const int type = static_cast<int>(d.loss_type);
  if (type < 0 || type > 9) {
    throw InvalidArgument(subject + "expected a loss type from 0 to 9 but got " +
                          std::to_string(type));
  }
  if (d.loss_type == CNNLossType::kCosineDistance && d.reduction_type != CNNReductionType::kSum) {
    throw InvalidArgument(subject + "expected the reduction type sum of a cosine distance");
  }
  const int reduction = static_cast<int>(d.reduction_type);
  if (reduction < 0 || reduction > 3) {
    throw InvalidArgument(subject + "expected a reduction type from 0 to 3 but got " +
                          std::to_string(reduction));
  }
  if (!(d.label_smoothing >= 0 && d.label_smoothing < 1)) {
    throw InvalidArgument(subject + "expected label smoothing of at least 0 and below 1 but got " +
                          short_text(d.label_smoothing));
  }
}

ValueId loss_values(Emission& e, const CNNLossDescriptor& d, const LossTerms& terms) {
  const ir::Type prediction = e.graph.type(terms.prediction);
  const ValueId labels = labels_of(e, d, terms);
  ValueId values = ir::kNone;
  if (has_layer(d.loss_type)) {
    LossDescriptor descriptor;
    descriptor.type = layer_type(d.loss_type);
    descriptor.reduction = ReductionType::kNone;
    if (!has_class_weights(e, d, terms)) {
      descriptor.label_smoothing = d.label_smoothing;
      descriptor.class_count = d.number_of_classes;
    }
    descriptor.delta = d.delta;
    values = e.layer(Loss(descriptor), {terms.prediction, labels});
    Shape shape = prediction.shape;
    if (d.loss_type == CNNLossType::kSoftMaxCrossEntropy) shape[1] = 1;
    values = ops::reshape(e.graph, values, shape);
  } else {
    ScalarList list{2, {}, {}};
    const double images = static_cast<double>(prediction.shape[0]);
    const double elements = static_cast<double>(prediction.elements()) / images;
    list.results = {other_loss(list, d, elements)};
    values = ops::elementwise(e.graph, std::move(list), {terms.prediction, labels})[0];
  }
  return weighted(e, d, terms, values);
}

void check_printed(const CNNLossDescriptor& d, const std::string& who) {
  if (d.loss_type == CNNLossType::kSoftMaxCrossEntropy || d.loss_type == CNNLossType::kHinge ||
      d.loss_type == CNNLossType::kHuber ||
      d.loss_type == CNNLossType::kKullbackLeiblerDivergence) {
    return;
  }
  throw Unsupported("[" + who +
                    "] the header's formula of a loss whose printed gradient is its derivative");
}

// The printed gradient of each element times its copy, which is no part of the gradient.
ValueId printed_values(Emission& e, const CNNLossDescriptor& d, const LossTerms& terms,
                       ValueId by) {
  const DataType type = e.graph.type(terms.prediction).data_type;
  const bool softmax = d.loss_type == CNNLossType::kSoftMaxCrossEntropy;
  ValueId y = terms.prediction;
  if (softmax) y = ops::apply1(e.graph, ir::Op::softmax, ir::SoftmaxAttributes{false, 1}, {y});
  ScalarList list{3, {}, {}};  // prediction or its softmax, label, copy
  int printed = 0;
  if (softmax) {  // y - t, where t is a share of 1
    printed = list.add(Scalar::subtract, 0, smooth(list, d, e.graph.type(y).shape[1], 1));
  } else if (d.loss_type == CNNLossType::kHinge) {  // that of max(1 - (2 t - 1) y, 0)
    const int side = list.add(Scalar::affine, 1, -1, 2, -1);
    const int rest = list.add(Scalar::affine, list.add(Scalar::label_product, 0, side), -1, -1, 1);
    const int away = list.add(Scalar::negate, side);
    printed = list.add(Scalar::where_nonzero, away, list.add(Scalar::relu, rest));
  } else if (d.loss_type == CNNLossType::kHuber) {  // delta beyond delta, without a sign
    const int apart = list.add(Scalar::subtract, 0, 1);
    const auto delta = static_cast<double>(d.delta);
    const int beyond = list.add(Scalar::threshold, list.add(Scalar::absolute, apart), -1, delta);
    const int limit = list.add(Scalar::constant, -1, -1, delta);
    const int rest =
        list.add(Scalar::subtract, apart, list.add(Scalar::where_nonzero, apart, beyond));
    printed = list.add(Scalar::add, rest, list.add(Scalar::where_nonzero, limit, beyond));
  } else {  // -t / y, 0 where t is 0
    const int read = list.add(Scalar::where_nonzero, 0, 1, 1);
    printed = list.add(Scalar::negate, list.add(Scalar::divide, 1, read));
  }
  list.results = {list.add(Scalar::multiply, printed, 2)};
  ValueId values = ops::elementwise(e.graph, std::move(list),
                                    {y, ops::cast(e.graph, terms.labels, type), by})[0];
  if (has_class_weights(e, d, terms)) {
    values = ops::binary(e.graph, Scalar::mask, values, ops::cast(e.graph, terms.weights, type));
  }
  if (softmax) values = ops::reduce(e.graph, ir::ReduceKind::sum, values, {1});
  return weighted(e, d, terms, values);
}

ValueId loss_share(Emission& e, const CNNLossDescriptor& d, const LossTerms& terms,
                   ValueId values) {
  const ir::Type type = e.graph.type(values);
  if (d.reduction_type == CNNReductionType::kSumByNonZeroWeights) {
    const ValueId count = counted(e, d, terms.weights, type.data_type);
    return ops::broadcast(e.graph, ops::unary(e.graph, Scalar::reciprocal, count), type);
  }
  const double images = static_cast<double>(type.shape[0]);
  double factor = 1;
  if (d.reduction_type == CNNReductionType::kMean) {
    factor = images / static_cast<double>(type.elements());
    if (d.reduce_across_batch) factor /= images;
  }
  return ops::filled(e.graph, type, factor);
}

ValueId reduced_loss(Emission& e, const CNNLossDescriptor& d, ValueId values, ValueId share) {
  if (d.reduction_type == CNNReductionType::kNone) return values;
  const ir::Type type = e.graph.type(values);
  const ValueId sum =
      ops::reduce(e.graph, ir::ReduceKind::sum,
                  ops::binary(e.graph, Scalar::multiply, values, share), reduced_axes(d));
  if (!d.reduce_across_batch || type.shape[0] == 1) return sum;
  // The first image has it all.
  const ValueId zeros =
      ops::filled(e.graph, {type.data_type, {type.shape[0] - 1, 1, 1, 1}, false}, 0);
  return ops::apply1(e.graph, ir::Op::concatenate, ir::AxisAttributes{0}, {sum, zeros});
}

// A layer's softmax cross entropy has no gradient by its labels; this is the same, composed.
ValueId softmax_by_labels(Emission& e, const CNNLossDescriptor& d, const LossTerms& terms) {
  const ir::Type type = e.graph.type(terms.prediction);
  const ValueId logarithms =
      ops::apply1(e.graph, ir::Op::softmax, ir::SoftmaxAttributes{true, 1}, {terms.prediction});
  ScalarList list{2, {}, {}};
  const int label = has_class_weights(e, d, terms) ? 1 : smooth(list, d, type.shape[1], 1);
  list.results = {list.add(Scalar::negate, list.add(Scalar::multiply, label, 0))};
  const ValueId parts =
      ops::elementwise(e.graph, std::move(list), {logarithms, labels_of(e, d, terms)})[0];
  return weighted(e, d, terms, ops::reduce(e.graph, ir::ReduceKind::sum, parts, {1}));
}

}  // namespace traingraph::mps
