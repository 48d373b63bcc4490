#include "mps_bindings.h"
#include "mps_coding.h"
#include "mps_encoding.h"

namespace traingraph::python {
namespace {

using mps::CNNBinaryKernel;
using mps::StatePtr;

py::object encode_binary(CNNBinaryKernel& self, const Arguments& arguments, bool batch) {
  mps::CommandBuffer& buffer = command_buffer(arguments);
  const auto primaries = images(arguments, batch ? "primary_images" : "primary_image", batch);
  const auto secondaries = images(arguments, batch ? "secondary_images" : "secondary_image", batch);
  const char* const destination = batch ? "destination_images" : "destination_image";
  mps::StateBatch states;
  if (arguments.given(destination)) {
    const char* const name = batch ? "destination_states" : "destination_state";
    if (arguments.given(name)) {
      states = batch ? arguments.get<mps::StateBatch>(name)
                     : mps::StateBatch{arguments.get<StatePtr>(name)};
    }
    self.encode_batch(buffer, primaries, secondaries, states,
                      images(arguments, destination, batch));
    return py::none();
  }
  if (!arguments.given("destination_state_is_temporary")) {
    return result_images(self.encode_batch(buffer, primaries, secondaries), batch);
  }
  const py::object list = list_of_states(arguments, batch);
  const bool temporary = arguments.get<bool>("destination_state_is_temporary");
  const auto results = self.encode_batch(buffer, primaries, secondaries, states, temporary);
  return with_states(results, states, list, batch);
}

py::object result_states(const CNNBinaryKernel& self, const Arguments& arguments, bool batch,
                         bool temporary) {
  const char* const primary =
      arguments.given("for_primary_image") ? "for_primary_image" : "primary_image";
  const mps::CommandBuffer* on = temporary ? &command_buffer(arguments) : nullptr;
  const mps::StateBatch states = self.result_state_batch(
      images(arguments, primary, batch), images(arguments, "secondary_image", batch), on);
  return batch ? py::cast(states) : py::cast(states[0]);
}

// The forms of encode() and encode_batch(), with the names of one image or of several.
std::vector<std::string> encode_forms(bool batch) {
  const std::string end = batch ? "s" : "";
  const std::string image = batch ? "collections.abc.Sequence[MPSImage]" : "MPSImage";
  const std::string state = batch ? "collections.abc.Sequence[MPSState]" : "MPSState";
  const std::string sources = "command_buffer: MTLCommandBuffer, primary_image" + end + ": " +
                              image + ", secondary_image" + end + ": " + image;
  return {sources + ", destination_image" + end + ": " + image,
          sources + ", destination_state" + end + ": " + state + ", destination_image" + end +
              ": " + image,
          sources,
          sources + ", destination_state" + end +
              ": list[MPSState], destination_state_is_temporary: bool",
          sources + ", destination_state_is_temporary: bool"};
}

void bind_binary(py::module_& module) {
  using Self = CNNBinaryKernel;
  auto cls = described<Self>(module, "MPSCNNBinaryKernel");
  cls.def("is_result_state_reused_across_batch", &Self::is_result_state_reused_across_batch,
          "Whether one state serves all images of a batch.");
  cls.def("append_batch_barrier", &Self::append_batch_barrier,
          "Whether the whole batch must be done before anybody reads a result.");
  def_method(cls, "encode", "typing.Any", encode_forms(false),
             "Encodes one pair. Without a destination it returns a new image; with "
             "destination_state_is_temporary the image and its state, which a given list gets.",
             [](Self& self, const Arguments& a) { return encode_binary(self, a, false); });
  def_method(cls, "encode_batch", "typing.Any", encode_forms(true),
             "Encodes as many pairs as there are images.",
             [](Self& self, const Arguments& a) { return encode_binary(self, a, true); });
  const std::string one =
      "for_primary_image: MPSImage, secondary_image: MPSImage, source_states: "
      "collections.abc.Sequence[MPSState] | "
      "None = None, destination_image: MPSImage | None = None";
  const std::string several =
      "for_primary_image: collections.abc.Sequence[MPSImage], secondary_image: "
      "collections.abc.Sequence[MPSImage], source_states: "
      "list[collections.abc.Sequence[MPSState]] | None = None, destination_image: "
      "collections.abc.Sequence[MPSImage] | None = None";
  const std::string on = "command_buffer: MTLCommandBuffer, ";
  def_method(cls, "result_state", "MPSState", {one}, "A new permanent state.",
             [](Self& self, const Arguments& a) { return result_states(self, a, false, false); });
  def_method(cls, "result_state_batch", "collections.abc.Sequence[MPSState]", {several},
             "New permanent states.",
             [](Self& self, const Arguments& a) { return result_states(self, a, true, false); });
  def_method(cls, "temporary_result_state", "MPSState", {on + one.substr(4)},
             "A new state that lives on the command buffer, with a read count of 1.",
             [](Self& self, const Arguments& a) { return result_states(self, a, false, true); });
  def_method(cls, "temporary_result_state_batch", "collections.abc.Sequence[MPSState]",
             {on + several.substr(4)},
             "New states that live on the command buffer, each with a read count of 1.",
             [](Self& self, const Arguments& a) { return result_states(self, a, true, true); });
  def_method(cls, "destination_image_descriptor", "MPSImageDescriptor",
             {"for_source_images: collections.abc.Sequence[MPSImage], source_states: "
              "collections.abc.Sequence[MPSState] | None = None"},
             "The size of a result.", [](Self& self, const Arguments& a) {
               const auto sources = a.get<mps::ImageBatch>("for_source_images");
               if (sources.size() != 2) {
                 throw InvalidArgument("[MPSCNNBinaryKernel] expected two source images but got " +
                                       std::to_string(sources.size()));
               }
               return self.destination_image_descriptor(sources[0]->descriptor(),
                                                        sources[1]->descriptor());
             });
}

}  // namespace

void bind_mps_arithmetic(py::module_& module) { bind_binary(module); }

}  // namespace traingraph::python
