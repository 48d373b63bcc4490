#include "mps_data_source.h"

namespace traingraph::python {
namespace {

using mps::CNNConvolutionTranspose;
using mps::CNNConvolutionTransposeGradient;
using mps::CNNConvolutionTransposeGradientState;
using mps::CNNKernel;
using mps::GradientState;
using mps::StatePtr;

// What all of these states say: one for each image, or one that they share.
const GradientState& convolution_of(const mps::StateBatch& states, std::size_t images) {
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
  return static_cast<const GradientState&>(*states[0]);
}

// The forms with a convolution's state take its size and offset back; the others are inherited.
py::object encode(CNNConvolutionTranspose& self, const Arguments& a, bool batch) {
  const char* const name = batch ? "convolution_gradient_states" : "convolution_gradient_state";
  const char* const source = batch ? "source_images" : "source_image";
  const char* const destination = batch ? "destination_images" : "destination_image";
  mps::CommandBuffer& buffer = command_buffer(a);
  if (!a.given(name)) {
    py::dict others;
    for (const char* argument :
         {source, destination, batch ? "destination_states" : "destination_state",
          "destination_state_is_temporary"}) {
      if (a.given(argument)) others[argument] = a[argument];
    }
    return py::type::of<CNNKernel>().attr(batch ? "encode_batch" : "encode")(
        py::cast(&self), a["command_buffer"], **others);
  }
  const mps::ImageBatch sources = images(a, source, batch);
  const GradientState& convolution =
      convolution_of(batch ? a.get<mps::StateBatch>(name) : mps::StateBatch{a.get<StatePtr>(name)},
                     sources.size());
  if (a.given(destination)) {
    self.encode_batch(buffer, sources, images(a, destination, batch));
    return py::none();
  }
  if (!a.given("destination_state_is_temporary")) {
    return result_images(self.encode_batch(buffer, sources, convolution, nullptr, false), batch);
  }
  const py::object list = list_of_states(a, batch);
  mps::StateBatch states;
  const auto results = self.encode_batch(buffer, sources, convolution, &states,
                                         a.get<bool>("destination_state_is_temporary"));
  return with_states(results, states, list, batch);
}

std::vector<std::string> forms(bool batch) {
  const std::string end = batch ? "s" : "";
  const std::string image = batch ? "collections.abc.Sequence[MPSImage]" : "MPSImage";
  const std::string state = batch ? "collections.abc.Sequence[MPSState]" : "MPSState";
  const std::string source = "command_buffer: MTLCommandBuffer, source_image" + end + ": " + image;
  const std::string chained = ", convolution_gradient_state" + end + ": " + state;
  const std::string to = ", destination_image" + end + ": " + image;
  const std::string list = ", destination_state" + end + ": list[MPSState]";
  const std::string flag = ", destination_state_is_temporary: bool";
  return {source + chained,
          source + chained + to,
          source + chained + list + flag,
          source + chained + flag,
          source + to,
          source + ", destination_state" + end + ": " + state + to,
          source,
          source + list + flag,
          source + flag};
}

void bind_forward(py::module_& module) {
  using Self = CNNConvolutionTranspose;
  auto cls = described<Self>(module, "MPSCNNConvolutionTranspose");
  def_forward_weights(cls);
  def_method(cls, "encode", "typing.Any", forms(false),
             "Encodes one image. The forms without a destination set the kernel offset.",
             [](Self& self, const Arguments& a) { return encode(self, a, false); });
  def_method(cls, "encode_batch", "typing.Any", forms(true),
             "Encodes a batch. The forms without a destination set the kernel offset.",
             [](Self& self, const Arguments& a) { return encode(self, a, true); });
}

}  // namespace

void bind_mps_convolution_transpose(py::module_& module) {
  bind_forward(module);
  using State = CNNConvolutionTransposeGradientState;
  auto state = BoundClass<State, mps::CNNConvolutionGradientState, std::shared_ptr<State>>(
      module, "MPSCNNConvolutionTransposeGradientState",
      "The gradients of one batch; one for all images.");
  state.def_property_readonly(
      "convolution_transpose",
      [](const State& self) {
        return std::const_pointer_cast<CNNConvolutionTranspose>(self.convolution_transpose());
      },
      "The forward kernel.");

  using Gradient = CNNConvolutionTransposeGradient;
  auto gradient = described<Gradient>(module, "MPSCNNConvolutionTransposeGradient");
  def_weights(gradient);
}

}  // namespace traingraph::python
