// What losses encode.
#include "mps/encoding.h"

namespace traingraph::python {
namespace {

void bind_loss(py::module_& module) {
  using Self = mps::CNNLoss;
  auto loss = described<Self>(module, "MPSCNNLoss");
  def_encodes(loss, "MPSImage | None", "source_image, labels", {"destination_image", ""},
              "Gradient: the destination, with the reduction's factor.",
              "Gradient: the destinations, with the reduction's factor.",
              [](Self& self, const Encoding& e) {
                return encode_into("destination_images", self, e, e.images("source_images"),
                                   e.items<std::shared_ptr<mps::CNNLossLabels>>("labels"));
              });
}

constexpr const char* kLabelsAndWeights =
    ", labels: Sequence[MPSImage], weights: Sequence[MPSImage] | None = None";

mps::ImageBatch weights_of(const Encoding& e) {
  return e.arguments.optional<mps::ImageBatch>("weights").value_or(mps::ImageBatch{});
}

void bind_forward_loss(py::module_& module) {
  using Self = mps::NNForwardLoss;
  auto cls = described<Self>(module, "MPSNNForwardLoss");
  def_encode(
      cls, true, "Any", std::string("source_image") + kLabelsAndWeights,
      {"destination_image", "destination_state, destination_image",
       "[destination_state], destination_state_is_temporary", "destination_state_is_temporary"},
      "Labels have the predictions' size. With destination_state_is_temporary it returns "
      "new images and their states, which a given list gets.",
      [](Self& self, const Encoding& e) {
        return encode_forward(self, e, e.images("source_images"), e.images("labels"),
                              weights_of(e));
      });
}

void bind_loss_gradient(py::module_& module) {
  using Self = mps::NNLossGradient;
  auto cls = described<Self>(module, "MPSNNLossGradient");
  def_encode(cls, true, "MPSImage | None",
             std::string("source_gradient, source_image") + kLabelsAndWeights +
                 ", source_states: Sequence[MPSState] | None = None",
             {"", "destination_gradient"},
             "Gradients that come in have the loss's size. Gradient: the exact derivative; where "
             "Apple's text differs (Huber, Kullback-Leibler, softmax) header_formula follows it.",
             [](Self& self, const Encoding& e) {
               const auto states = e.arguments.optional<mps::StateBatch>("source_states");
               return encode_into("destination_gradients", self, e, e.images("source_gradients"),
                                  e.images("source_images"), e.images("labels"), weights_of(e),
                                  states.value_or(mps::StateBatch{}));
             });
}

}  // namespace

void bind_mps_loss(py::module_& module) {
  bind_loss(module);
  bind_forward_loss(module);
  bind_loss_gradient(module);
}

}  // namespace traingraph::python
