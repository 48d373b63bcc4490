// Binds encode() of transposed convolution kernels, with the forms that take a convolution's
// gradient state.
#include "mps/encoding.h"
#include "mps/mps_bindings.h"

namespace traingraph::python {
namespace {

using mps::CNNConvolutionTranspose;
using mps::CNNKernel;
using mps::GradientState;
using mps::StatePtr;

// What all of these states say: one for each image, or one that they share.
mps::StateBatch convolution_of(mps::StateBatch states, std::size_t images) {
  if (states.empty() || (states.size() != 1 && states.size() != images)) {
    throw InvalidArgument(
        "[MPSCNNConvolutionTranspose] expected a convolution's state for each of " +
        std::to_string(images) + " images but got " + std::to_string(states.size()));
  }
  for (const StatePtr& state : states) {
    if (dynamic_cast<const GradientState*>(state.get()) != nullptr) continue;
    throw InvalidArgument("[MPSCNNConvolutionTranspose] expected a convolution's state but got " +
                          (state == nullptr ? "none" : state->description()));
  }
  return states;
}

// The forms with a convolution's state take its size and offset back.
py::object encode(CNNConvolutionTranspose& self, const Encoding& e) {
  const mps::ImageBatch sources = e.images("source_images");
  if (!e.given("convolution_gradient_states")) {
    return encode_forward(static_cast<CNNKernel&>(self), e, sources);
  }
  const mps::StateBatch convolution =
      convolution_of(e.states("convolution_gradient_states"), sources.size());
  if (e.given("destination_images")) return encode_into("destination_images", self, e, sources);
  if (!e.arguments.given("destination_state_is_temporary")) {
    return e.result(self.encode_batch(e.buffer(), sources, convolution, nullptr, false));
  }
  const py::object list = e.list_of_states();
  mps::StateBatch states;
  const auto results = self.encode_batch(e.buffer(), sources, convolution, &states,
                                         e.arguments.get<bool>("destination_state_is_temporary"));
  return e.with_states(results, states, list);
}

}  // namespace

void bind_mps_convolution_transpose(py::module_& module) {
  using Self = CNNConvolutionTranspose;
  auto cls = described<Self>(module, "MPSCNNConvolutionTranspose");
  def_encodes(
      cls, "Any", "source_image",
      {"convolution_gradient_state", "convolution_gradient_state, destination_image",
       "convolution_gradient_state, [destination_state], destination_state_is_temporary",
       "convolution_gradient_state, destination_state_is_temporary", "destination_image",
       "destination_state, destination_image", "",
       "[destination_state], destination_state_is_temporary", "destination_state_is_temporary"},
      "Encodes one image. The forms without a destination set the kernel offset.",
      "Encodes a batch. The forms without a destination set the kernel offset.", encode);
}

}  // namespace traingraph::python
