// What losses encode.
#include "mps_bindings.h"
#include "mps_coding.h"
#include "mps_encoding.h"

namespace traingraph::python {
namespace {

using mps::CNNLoss;
using mps::CNNLossLabels;
using mps::CNNLossLabelsBatch;

py::object encode_loss(CNNLoss& self, const Arguments& arguments, bool batch) {
  mps::CommandBuffer& buffer = command_buffer(arguments);
  const auto sources = images(arguments, batch ? "source_images" : "source_image", batch);
  const CNNLossLabelsBatch labels =
      batch ? arguments.get<CNNLossLabelsBatch>("labels")
            : CNNLossLabelsBatch{arguments.get<std::shared_ptr<CNNLossLabels>>("labels")};
  const char* const destination = batch ? "destination_images" : "destination_image";
  if (!arguments.given(destination)) {
    return result_images(self.encode_batch(buffer, sources, labels), batch);
  }
  self.encode_batch(buffer, sources, labels, images(arguments, destination, batch));
  return py::none();
}

void bind_loss(py::module_& module) {
  auto loss = described<CNNLoss>(module, "MPSCNNLoss");
  def_method(loss, "encode", "MPSImage | None",
             {"command_buffer: MTLCommandBuffer, source_image: MPSImage, "
              "labels: MPSCNNLossLabels, destination_image: MPSImage",
              "command_buffer: MTLCommandBuffer, source_image: MPSImage, labels: MPSCNNLossLabels"},
             "Gradient: the destination, with the reduction's factor.",
             [](CNNLoss& self, const Arguments& a) { return encode_loss(self, a, false); });
  def_method(
      loss, "encode_batch", "collections.abc.Sequence[MPSImage] | None",
      {"command_buffer: MTLCommandBuffer, source_images: collections.abc.Sequence[MPSImage], "
       "labels: list[MPSCNNLossLabels], destination_images: collections.abc.Sequence[MPSImage]",
       "command_buffer: MTLCommandBuffer, source_images: collections.abc.Sequence[MPSImage], "
       "labels: list[MPSCNNLossLabels]"},
      "Gradient: the destinations, with the reduction's factor.",
      [](CNNLoss& self, const Arguments& a) { return encode_loss(self, a, true); });
}

mps::ImageBatch weights_of(const Arguments& arguments) {
  return arguments.optional<mps::ImageBatch>("weights").value_or(mps::ImageBatch{});
}

void bind_forward_loss(py::module_& module) {
  using Self = mps::NNForwardLoss;
  auto cls = described<Self>(module, "MPSNNForwardLoss");
  const std::string sources =
      "command_buffer: MTLCommandBuffer, source_images: collections.abc.Sequence[MPSImage], "
      "labels: collections.abc.Sequence[MPSImage], "
      "weights: collections.abc.Sequence[MPSImage] | None = None, ";
  def_method(
      cls, "encode_batch", "typing.Any",
      {sources + "destination_images: collections.abc.Sequence[MPSImage]",
       sources + "destination_states: collections.abc.Sequence[MPSState], destination_images: "
                 "collections.abc.Sequence[MPSImage]",
       sources + "destination_states: list[MPSState], destination_state_is_temporary: bool",
       sources + "destination_state_is_temporary: bool"},
      "Labels have the predictions' size. With destination_state_is_temporary it returns new "
      "images and their states, which a given list gets.",
      [](Self& self, const Arguments& a) -> py::object {
        mps::CommandBuffer& buffer = command_buffer(a);
        const auto predictions = images(a, "source_images", true);
        const auto labels = images(a, "labels", true);
        mps::StateBatch states;
        if (a.given("destination_images")) {
          if (a.given("destination_states")) states = a.get<mps::StateBatch>("destination_states");
          self.encode_batch(buffer, predictions, labels, weights_of(a), states,
                            images(a, "destination_images", true));
          return py::none();
        }
        const py::object list = list_of_states(a, true);
        const auto results = self.encode_batch(buffer, predictions, labels, weights_of(a), states,
                                               a.get<bool>("destination_state_is_temporary"));
        return with_states(results, states, list, true);
      });
}

void bind_loss_gradient(py::module_& module) {
  using Self = mps::NNLossGradient;
  auto cls = described<Self>(module, "MPSNNLossGradient");
  const std::string sources =
      "command_buffer: MTLCommandBuffer, source_gradients: collections.abc.Sequence[MPSImage], "
      "source_images: "
      "collections.abc.Sequence[MPSImage], labels: collections.abc.Sequence[MPSImage], weights: "
      "collections.abc.Sequence[MPSImage] | None = None, "
      "source_states: collections.abc.Sequence[MPSState] | None = None";
  def_method(cls, "encode_batch", "collections.abc.Sequence[MPSImage] | None",
             {sources, sources + ", destination_gradients: collections.abc.Sequence[MPSImage]"},
             "Gradients that come in have the loss's size. Gradient: the exact derivative; where "
             "Apple's text differs (Huber, Kullback-Leibler, softmax) header_formula follows it.",
             [](Self& self, const Arguments& a) -> py::object {
               mps::CommandBuffer& buffer = command_buffer(a);
               const auto gradients = images(a, "source_gradients", true);
               const auto predictions = images(a, "source_images", true);
               const auto labels = images(a, "labels", true);
               const auto states =
                   a.optional<mps::StateBatch>("source_states").value_or(mps::StateBatch{});
               if (!a.given("destination_gradients")) {
                 return py::cast(self.encode_batch(buffer, gradients, predictions, labels,
                                                   weights_of(a), states));
               }
               self.encode_batch(buffer, gradients, predictions, labels, weights_of(a), states,
                                 images(a, "destination_gradients", true));
               return py::none();
             });
}

}  // namespace

void bind_mps_loss(py::module_& module) {
  def_coded<mps::CNNLossDescriptor>(module, "MPSCNNLossDescriptor");
  bind_loss(module);
  bind_forward_loss(module);
  bind_loss_gradient(module);
}

}  // namespace traingraph::python
