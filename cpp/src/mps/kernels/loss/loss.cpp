// CNNLoss and CNNLossLabels: one operation writes the gradient by the prediction and the loss
// images.
#include <traingraph/mps/loss.h>

#include <traingraph/errors.h>

#include "mps/kernels/loss/loss_form.h"
#include "mps/recording/image_parts.h"

namespace traingraph::mps {
namespace {

using ir::ValueId;

class LossOperation final : public Operation {
 public:
  LossOperation(const std::string& subject_in, CNNLossDescriptor d, bool printed)
      : Operation(subject_in), d_(d), printed_(printed) {}

  // prediction, labels [, weights] → gradient, loss
  void emit(Emission& e) const override {
    e.hold_apart();
    const LossTerms terms{e.inputs[0], e.inputs[1], e.inputs.size() > 2 ? e.inputs[2] : ir::kNone,
                          false};
    const ValueId values = loss_values(e, d_, terms);
    const ValueId share = loss_share(e, d_, terms, values);
    if (printed_) {
      const ValueId by = ops::unary(e.graph, ir::Scalar::identity, terms.prediction);
      e.set(0, e.gradients(printed_values(e, d_, terms, by), share, {by})[0]);
    } else {
      e.set(0, e.gradients(values, share, {terms.prediction})[0]);
    }
    e.set(1, reduced_loss(e, d_, values, share));
  }

 private:
  CNNLossDescriptor d_;
  bool printed_;
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

CNNLossLabels::CNNLossLabels(const Device& device, const CNNLossDataDescriptor& labels)
    : CNNLossLabels(device, {ChannelFormat::kFloat32, 1, 1, 1, 1}, labels.image(device)) {}

CNNLoss::CNNLoss(const Device& device, CNNLossDescriptor descriptor)
    : Kernel(device), descriptor_(descriptor) {
  check_loss(descriptor_, kind());
}

OperationPtr CNNLoss::make_operation() const {
  return std::make_shared<LossOperation>(description(), descriptor_, header_formula_);
}

void CNNLoss::set_header_formula(bool value) {
  if (value) check_printed(descriptor_, description());
  set(header_formula_, value);
}

ImageBatch CNNLoss::encode_batch(CommandBuffer& buffer, const ImageBatch& predictions,
                                 const CNNLossLabelsBatch& labels) {
  recording(buffer);
  check_batch(predictions, "source images");
  ImageDescriptor result = unclamped(predictions[0]->descriptor());
  result.number_of_images *= static_cast<std::int64_t>(predictions.size());
  ImageBatch images = make_images(buffer, result, *this, predictions);
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
  for (const auto& one : labels) {
    if (one == nullptr) refuse("expected labels for every image but got none");
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
  ImageDescriptor loss = values_of(descriptor_, prediction);
  if (descriptor_.reduction_type != CNNReductionType::kNone) {
    loss.width = loss.height = loss.feature_channels = 1;
  }
  expect("loss images", losses[0]->descriptor(), loss);
  const bool weighted = labels[0]->weights_image() != nullptr;
  if (!weighted && descriptor_.reduction_type == CNNReductionType::kSumByNonZeroWeights) {
    refuse("expected labels with weights for a sum by non-zero weights but got none");
  }
  for (const auto& one : labels) {
    if ((one->weights_image() != nullptr) == weighted) continue;
    refuse("expected weights with the labels of every image or of none but got some without");
  }
  ImageBatch weights;
  if (weighted) {
    weights = images_of(labels, &CNNLossLabels::weights_image);
    check_batch(weights, "weights images");
    const ImageDescriptor& given = weights[0]->descriptor();
    expect("weights images", given, weights_of(descriptor_, prediction, given));
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
