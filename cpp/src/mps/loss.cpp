#include <traingraph/mps/loss.h>

#include <traingraph/errors.h>
#include <traingraph/loss.h>

#include "mps/forms.h"

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

// One value per element over the prediction, register 0, and the label, register 1.
int other_loss(ScalarList& list, const CNNLossDescriptor& d) {
  const auto epsilon = static_cast<double>(d.epsilon);
  switch (d.loss_type) {
    case CNNLossType::kCategoricalCrossEntropy:  // -t log y
      return list.add(Scalar::negate, list.add(Scalar::multiply, 1, list.add(Scalar::log, 0)));
    case CNNLossType::kHinge: {  // max(1 - (2 t - 1) y, 0)
      const int side = list.add(Scalar::affine, 1, -1, 2, -1);
      const int product = list.add(Scalar::multiply, side, 0);
      return list.add(Scalar::relu, list.add(Scalar::affine, product, -1, -1, 1));
    }
    case CNNLossType::kLog: {  // -t log(y + ε) - (1 - t) log(1 - y + ε)
      const int yes = list.add(Scalar::log, list.add(Scalar::affine, 0, -1, 1, epsilon));
      const int no = list.add(Scalar::log, list.add(Scalar::affine, 0, -1, -1, 1 + epsilon));
      const int rest = list.add(Scalar::affine, 1, -1, -1, 1);
      return list.add(Scalar::multiply_add, list.add(Scalar::multiply, 1, yes),
                      list.add(Scalar::multiply, rest, no), -1, -1);
    }
    default: {  // t (log t - y), 0 where t is 0
      const int entropy = list.add(Scalar::subtract, list.add(Scalar::log, 1), 0);
      return list.add(Scalar::mask, entropy, 1);
    }
  }
}

class LossOperation final : public Operation {
 public:
  LossOperation(const std::string& subject_in, CNNLossDescriptor d)
      : Operation(subject_in), d_(d) {}

  // prediction, labels [, weights] → gradient, loss
  void emit(Emission& e) const override {
    const ValueId values = losses(e);
    const ir::Type type = e.graph.type(values);
    const double images = static_cast<double>(type.shape[0]);
    double factor = 1;
    if (d_.reduction_type == CNNReductionType::kMean) {
      factor = images / static_cast<double>(type.elements());
      if (d_.reduce_across_batch) factor /= images;
    }
    ValueId share = ops::filled(e.graph, type, factor);
    if (d_.reduction_type == CNNReductionType::kSumByNonZeroWeights) {
      share = ops::broadcast(e.graph, ops::unary(e.graph, Scalar::reciprocal, counted(e)), type);
    }
    e.set(0, e.gradients(values, share, {e.inputs[0]})[0]);
    if (d_.reduction_type == CNNReductionType::kNone) {
      e.set(1, values);
      return;
    }
    ValueId sum = ops::reduce(e.graph, ir::ReduceKind::sum,
                              ops::binary(e.graph, Scalar::multiply, values, share), axes());
    if (d_.reduce_across_batch && type.shape[0] > 1) {
      // The first image has it all.
      const ValueId zeros =
          ops::filled(e.graph, {type.data_type, {type.shape[0] - 1, 1, 1, 1}, false}, 0);
      sum = ops::apply1(e.graph, ir::Op::concatenate, ir::AxisAttributes{0}, {sum, zeros});
    }
    e.set(1, sum);
  }

 private:
  std::vector<int> axes() const {
    return d_.reduce_across_batch ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{1, 2, 3};
  }

  // (N, C, H, W), or (N, 1, H, W) for softmax cross entropy.
  ValueId losses(Emission& e) const {
    const ir::Type prediction = e.type(0);
    const DataType type = prediction.data_type;
    const ValueId labels = ops::cast(e.graph, e.inputs[1], type);
    ValueId values = ir::kNone;
    if (has_layer(d_.loss_type)) {
      LossDescriptor descriptor;
      descriptor.type = layer_type(d_.loss_type);
      descriptor.reduction = ReductionType::kNone;
      descriptor.label_smoothing = d_.label_smoothing;
      descriptor.class_count = d_.number_of_classes;
      descriptor.delta = d_.delta;
      values = e.layer(Loss(descriptor), {e.inputs[0], labels});
      Shape shape = prediction.shape;
      if (d_.loss_type == CNNLossType::kSoftMaxCrossEntropy) shape[1] = 1;
      values = ops::reshape(e.graph, values, shape);
    } else {
      ScalarList list{2, {}, {}};
      list.results = {other_loss(list, d_)};
      values = ops::elementwise(e.graph, std::move(list), {e.inputs[0], labels})[0];
    }
    if (e.inputs.size() > 2) {
      // 0 removes a value even where it is not finite.
      values = ops::binary(e.graph, Scalar::mask, values, ops::cast(e.graph, e.inputs[2], type));
    }
    if (d_.weight != 1) {
      values = ops::unary(e.graph, Scalar::scale, values, static_cast<double>(d_.weight));
    }
    return values;
  }

  // How many weights are not 0, at least 1, per image or in all.
  ValueId counted(Emission& e) const {
    ScalarList list{1, {}, {}};
    const int one = list.add(Scalar::constant, -1, -1, 1);
    list.results = {list.add(Scalar::where_nonzero, one, 0, 0)};
    const ValueId weights = ops::cast(e.graph, e.inputs[2], e.type(0).data_type);
    const ValueId marks = ops::elementwise(e.graph, std::move(list), {weights})[0];
    const ValueId count = ops::reduce(e.graph, ir::ReduceKind::sum, marks, axes());
    return ops::binary(e.graph, Scalar::maximum, count,
                       ops::filled(e.graph, e.graph.type(count), 1));
  }

  CNNLossDescriptor d_;
};

ImageBatch images_of(const CNNLossLabelsBatch& labels,
                     const ImagePtr& (CNNLossLabels::*image)() const) {
  ImageBatch batch;
  for (const auto& one : labels) batch.push_back(((*one).*image)());
  return batch;
}

}  // namespace

CNNLossLabels::CNNLossLabels(const Device& device, const ImageDescriptor& loss_image_size,
                             ImagePtr labels, ImagePtr weights)
    : CNNLossLabels(Image::create(device, loss_image_size), std::move(labels), std::move(weights)) {
}

CNNLossLabels::CNNLossLabels(ImagePtr loss_image, ImagePtr labels, ImagePtr weights)
    : State(nullptr),
      loss_(std::move(loss_image)),
      labels_(std::move(labels)),
      weights_(std::move(weights)) {
  if (loss_ == nullptr || labels_ == nullptr) {
    throw InvalidArgument(
        "[MPSCNNLossLabels] expected a loss image and a labels image but got none");
  }
}

CNNLoss::CNNLoss(const Device& device, CNNLossDescriptor descriptor)
    : Kernel(device), descriptor_(descriptor) {
  const int type = static_cast<int>(descriptor.loss_type);
  if (type < 0 || type > 9) {
    refuse("expected a loss type from 0 to 9 but got " + std::to_string(type));
  }
  if (descriptor.loss_type == CNNLossType::kCosineDistance) {
    refuse_use("cosine distance: this version has none");
  }
  const int reduction = static_cast<int>(descriptor.reduction_type);
  if (reduction < 0 || reduction > 3) {
    refuse("expected a reduction type from 0 to 3 but got " + std::to_string(reduction));
  }
  if (!(descriptor.label_smoothing >= 0 && descriptor.label_smoothing < 1)) {
    refuse("expected label smoothing of at least 0 and below 1 but got " +
           std::to_string(descriptor.label_smoothing));
  }
}

OperationPtr CNNLoss::make_operation() const {
  return std::make_shared<LossOperation>(description(), descriptor_);
}

ImageBatch CNNLoss::encode_batch(CommandBuffer& buffer, const ImageBatch& predictions,
                                 const CNNLossLabelsBatch& labels) {
  recording(buffer);
  check_batch(predictions, "source images");
  ImageDescriptor result = predictions[0]->descriptor();
  result.number_of_images *= static_cast<std::int64_t>(predictions.size());
  ImageBatch images = make_images(buffer, result, makes_temporary_images);
  encode_batch(buffer, predictions, labels, images);
  return images;
}

void CNNLoss::encode_batch(CommandBuffer& buffer, const ImageBatch& predictions,
                           const CNNLossLabelsBatch& labels, const ImageBatch& destinations) {
  Recording& recording = this->recording(buffer);
  check_batch(predictions, "source images");
  check_batch(destinations, "destination images");
  if (labels.size() != predictions.size() || destinations.size() != predictions.size()) {
    refuse_shape("expected labels and destinations for " + std::to_string(predictions.size()) +
                 " images but got " + std::to_string(labels.size()) + " and " +
                 std::to_string(destinations.size()));
  }
  const ImageBatch truth = images_of(labels, &CNNLossLabels::labels_image);
  const ImageBatch losses = images_of(labels, &CNNLossLabels::loss_image);
  check_batch(truth, "labels images");
  check_batch(losses, "loss images");
  auto expect = [&](const char* what, const ImageDescriptor& got, ImageDescriptor expected) {
    expected.channel_format = got.channel_format;
    if (got == expected) return;
    refuse_shape(std::string("expected ") + what + " " + to_string(expected) + " but got " +
                 to_string(got));
  };
  const ImageDescriptor& prediction = predictions[0]->descriptor();
  expect("labels images", truth[0]->descriptor(), prediction);
  expect("destination images", destinations[0]->descriptor(), prediction);
  ImageDescriptor per_value = prediction;
  if (descriptor_.loss_type == CNNLossType::kSoftMaxCrossEntropy) per_value.feature_channels = 1;
  ImageDescriptor loss = per_value;
  if (descriptor_.reduction_type != CNNReductionType::kNone) {
    loss.width = loss.height = loss.feature_channels = 1;
  }
  expect("loss images", losses[0]->descriptor(), loss);
  const bool weighted = labels[0]->weights_image() != nullptr;
  if (!weighted && descriptor_.reduction_type == CNNReductionType::kSumByNonZeroWeights) {
    refuse("expected labels with weights for a sum by non-zero weights but got none");
  }
  ImageBatch weights;
  if (weighted) {
    weights = images_of(labels, &CNNLossLabels::weights_image);
    check_batch(weights, "weights images");
    expect("weights images", weights[0]->descriptor(), per_value);
  }
  recording.begin(operation());
  recording.input(predictions);
  recording.input(truth);
  if (weighted) recording.input(weights);
  recording.result(destinations);
  recording.result(losses);
  recording.end();
  read(predictions);
}

}  // namespace traingraph::mps
