// NNForwardLoss, NNLossGradient and NNInitialGradient: checks of predictions, labels and weights,
// and the operations, whose gradients are derived from the forward ops.
#include <traingraph/mps/forward_loss.h>

#include <traingraph/errors.h>

#include "mps/kernels/differentiable.h"
#include "mps/kernels/loss/loss_form.h"
#include "mps/recording/image_parts.h"

namespace traingraph::mps {
namespace {

using ir::ValueId;

ImageDescriptor loss_of(const CNNLossDescriptor& d, const ImageDescriptor& prediction) {
  ImageDescriptor result = values_of(d, prediction);
  if (d.reduction_type != CNNReductionType::kNone) {
    result.width = result.height = result.feature_channels = 1;
  }
  return result;
}

LossTerms terms_from(const Emission& e, std::size_t first, bool running_weight) {
  return {e.inputs[first], e.inputs[first + 1],
          e.inputs.size() > first + 2 ? e.inputs[first + 2] : ir::kNone, running_weight};
}

// prediction, labels [, weights] → loss
class ForwardLossOperation final : public Operation {
 public:
  ForwardLossOperation(const std::string& subject_in, const CNNLossDescriptor& d, bool running)
      : Operation(subject_in), d_(d), running_(running) {}
  void emit(Emission& e) const override {
    const LossTerms terms = terms_from(e, 0, running_);
    const ValueId values = loss_values(e, d_, terms);
    e.set(0, reduced_loss(e, d_, values, loss_share(e, d_, terms, values)));
  }

 private:
  CNNLossDescriptor d_;
  bool running_;
};

// dloss, prediction, labels [, weights] → gradient by the prediction, or by the labels
class LossGradientOperation final : public Operation {
 public:
  LossGradientOperation(const std::string& subject_in, const CNNLossDescriptor& d, bool by_labels,
                        bool printed, bool running)
      : Operation(subject_in),
        d_(d),
        by_labels_(by_labels),
        printed_(printed && !by_labels),
        running_(running) {}
  void emit(Emission& e) const override {
    e.hold_apart();
    LossTerms terms = terms_from(e, 1, running_);
    // The image itself may be of 16 bits.
    terms.labels = ops::cast(e.graph, terms.labels, e.graph.type(terms.prediction).data_type);
    ValueId by = by_labels_ ? terms.labels : terms.prediction;
    if (printed_) by = ops::unary(e.graph, ir::Scalar::identity, by);
    const ValueId values = values_by(e, terms, by);
    const ValueId loss = reduced_loss(e, d_, values, loss_share(e, d_, terms, values));
    e.set(0, e.gradients(loss, e.inputs[0], {by})[0]);
  }

 private:
  ValueId values_by(Emission& e, const LossTerms& terms, ValueId by) const {
    if (printed_) return printed_values(e, d_, terms, by);
    const bool composed = by_labels_ && d_.loss_type == CNNLossType::kSoftMaxCrossEntropy;
    return composed ? softmax_by_labels(e, d_, terms) : loss_values(e, d_, terms);
  }

  CNNLossDescriptor d_;
  bool by_labels_;
  bool printed_;
  bool running_;
};

}  // namespace

// --- forward -------------------------------------------------------------------------------------

NNForwardLoss::NNForwardLoss(const Device& device, const CNNLossDescriptor& descriptor)
    : CNNKernel(device), descriptor_(descriptor) {
  check_loss(descriptor_, kind());
}
void NNForwardLoss::set_descriptor(const CNNLossDescriptor& value) {
  check_loss(value, description());
  set(descriptor_, value);
}
void NNForwardLoss::set_running_weight(float value) {
  set(running_weight_, true);
  descriptor_.weight = value;
}
OperationPtr NNForwardLoss::make_operation() const {
  return std::make_shared<ForwardLossOperation>(description(), descriptor_, running_weight_);
}
ImageDescriptor NNForwardLoss::result_of(const ImageDescriptor& source) const {
  return loss_of(descriptor_, source);
}
void NNForwardLoss::record(CommandBuffer&, const ImageBatch&, const StateBatch&,
                           const ImageBatch&) {
  refuse_use("an encode without labels: only encode_batch with labels and weights");
}

namespace {

// Why these images cannot go together, or nothing.
std::string mismatch(const char* what, const ImageBatch& got, const ImageBatch& predictions,
                     ImageDescriptor expected) {
  if (got.size() == predictions.size()) {
    expected.channel_format = got[0]->descriptor().channel_format;
    if (got[0]->descriptor() == expected) return "";
  }
  return "expected " + std::to_string(predictions.size()) + " " + what + " " + to_string(expected) +
         " but got " + std::to_string(got.size()) + ", " + got[0]->description();
}

std::string weights_refused(const CNNLossDescriptor& d, const ImageBatch& weights) {
  if (!weights.empty() || d.reduction_type != CNNReductionType::kSumByNonZeroWeights) return "";
  return "expected weights for a sum by non-zero weights but got none";
}

}  // namespace

void NNForwardLoss::encode_batch(CommandBuffer& buffer, const ImageBatch& predictions,
                                 const ImageBatch& labels, const ImageBatch& weights,
                                 const StateBatch& states, const ImageBatch& destinations) {
  Recording& recording = this->recording(buffer);
  refuse_parts();
  check_batch(predictions, "source images");
  check_batch(labels, "labels images");
  check_batch(destinations, "destination images");
  const ImageDescriptor& prediction = predictions[0]->descriptor();
  auto expect = [&](const char* what, const ImageBatch& got, const ImageDescriptor& size) {
    const std::string refused = mismatch(what, got, predictions, size);
    if (!refused.empty()) refuse_shape(refused);
  };
  expect("labels images", labels, prediction);
  expect("destination images", destinations, loss_of(descriptor_, prediction));
  if (!weights.empty()) {
    check_batch(weights, "weights images");
    expect("weights images", weights,
           weights_of(descriptor_, prediction, weights[0]->descriptor()));
  }
  const std::string refused = weights_refused(descriptor_, weights);
  if (!refused.empty()) refuse(refused);
  for (const StatePtr& state : states) {
    if (state == nullptr) refuse("expected a state but got none");
    check_destination_state(*state, buffer);
  }
  recording.begin(operation());
  recording.input(predictions);
  recording.input(labels);
  if (!weights.empty()) recording.input(weights);
  recording.result(destinations);
  if (running_weight_) recording.number(static_cast<double>(descriptor_.weight));
  recording.end();
  for (const StatePtr& state : states) {
    auto* own = dynamic_cast<GradientState*>(state.get());
    if (own != nullptr) own->encoded_forward(buffer, destinations[0]->descriptor());
  }
  read(predictions);
  read(labels);
  if (!weights.empty()) read(weights);
}

ImageBatch NNForwardLoss::encode_batch(CommandBuffer& buffer, const ImageBatch& predictions,
                                       const ImageBatch& labels, const ImageBatch& weights,
                                       StateBatch& states, bool temporary_states) {
  recording(buffer);
  refuse_own(padding(), "a loss has the size of its source, or is one number");
  states = result_state_batch(predictions, temporary_states ? &buffer : nullptr);
  ImageDescriptor result = unclamped(loss_of(descriptor_, predictions[0]->descriptor()));
  result.number_of_images *= static_cast<std::int64_t>(predictions.size());
  ImageBatch images = make_images(buffer, result, *this, predictions);
  encode_batch(buffer, predictions, labels, weights, states, images);
  return images;
}

// --- gradient ------------------------------------------------------------------------------------

NNLossGradient::NNLossGradient(const Device& device, const CNNLossDescriptor& descriptor)
    : CNNBinaryKernel(device), descriptor_(descriptor) {
  check_loss(descriptor_, kind());
}
void NNLossGradient::set_descriptor(const CNNLossDescriptor& value) {
  check_loss(value, description());
  if (header_formula_) check_printed(value, description());
  set(descriptor_, value);
}
void NNLossGradient::set_running_weight(float value) {
  set(running_weight_, true);
  descriptor_.weight = value;
}
OperationPtr NNLossGradient::make_operation() const {
  return std::make_shared<LossGradientOperation>(description(), descriptor_, by_labels_,
                                                 header_formula_, running_weight_);
}
void NNLossGradient::set_header_formula(bool value) {
  if (value) check_printed(descriptor_, description());
  set(header_formula_, value);
}
StatePtr NNLossGradient::make_state(const ImageDescriptor&, const ImageDescriptor&,
                                    const CommandBuffer*) const {
  refuse_use("a result state: a gradient kernel makes none");
}
void NNLossGradient::add_results(CommandBuffer&, Recording& recording, const StateBatch&,
                                 const ImageDescriptor&) const {
  recording.cancel();
  refuse_use("an encode without labels: only encode_batch with labels and weights");
}
ImageDescriptor NNLossGradient::destination_image_descriptor(
    const ImageDescriptor&, const ImageDescriptor& prediction) const {
  return prediction;
}

void NNLossGradient::encode_batch(CommandBuffer& buffer, const ImageBatch& gradients,
                                  const ImageBatch& predictions, const ImageBatch& labels,
                                  const ImageBatch& weights, const StateBatch& states,
                                  const ImageBatch& destinations) {
  Recording& recording = this->recording(buffer);
  refuse_parts();
  check_batch(gradients, "source gradients");
  check_batch(predictions, "source images");
  check_batch(labels, "labels images");
  check_batch(destinations, "destination gradients");
  const ImageDescriptor& prediction = predictions[0]->descriptor();
  auto expect = [&](const char* what, const ImageBatch& got, const ImageDescriptor& size) {
    const std::string refused = mismatch(what, got, predictions, size);
    if (!refused.empty()) refuse_shape(refused);
  };
  expect("source gradients", gradients, loss_of(descriptor_, prediction));
  expect("labels images", labels, prediction);
  expect("destination gradients", destinations, prediction);
  if (!weights.empty()) {
    check_batch(weights, "weights images");
    expect("weights images", weights,
           weights_of(descriptor_, prediction, weights[0]->descriptor()));
  }
  const std::string refused = weights_refused(descriptor_, weights);
  if (!refused.empty()) refuse(refused);
  for (const StatePtr& state : states) {
    if (dynamic_cast<const GradientState*>(state.get()) == nullptr) {
      refuse("expected a state of MPSNNForwardLoss but got " +
             (state == nullptr ? "none" : state->description()));
    }
    check_state(*state, buffer);
  }
  recording.begin(operation());
  recording.input(gradients);
  recording.input(predictions);
  recording.input(labels);
  if (!weights.empty()) recording.input(weights);
  recording.result(destinations);
  if (running_weight_) recording.number(static_cast<double>(descriptor_.weight));
  recording.end();
  read(gradients);
  read(predictions);
  read(labels);
  if (!weights.empty()) read(weights);
  read(states);
  for (const StatePtr& state : states) {
    static_cast<GradientState&>(*state).encoded_gradient(buffer);
  }
}

ImageBatch NNLossGradient::encode_batch(CommandBuffer& buffer, const ImageBatch& gradients,
                                        const ImageBatch& predictions, const ImageBatch& labels,
                                        const ImageBatch& weights, const StateBatch& states) {
  recording(buffer);
  refuse_own(padding(), "a gradient has the size of its source");
  check_batch(predictions, "source images");
  ImageDescriptor result = unclamped(predictions[0]->descriptor());
  result.number_of_images *= static_cast<std::int64_t>(predictions.size());
  ImageBatch images = make_images(buffer, result, *this, predictions);
  encode_batch(buffer, gradients, predictions, labels, weights, states, images);
  return images;
}

OperationPtr NNInitialGradient::make_operation() const {
  return forward_operation(description(), [](Emission& e, ValueId x, const Shape&) {
    return ops::filled(e.graph, e.graph.type(x), 1);
  });
}

}  // namespace traingraph::mps
