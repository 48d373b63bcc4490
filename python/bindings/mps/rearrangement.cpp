// What reshaping and concatenation encode.
#include "mps/encoding.h"

namespace traingraph::python {
namespace {

using mps::NNConcatenation;
using mps::NNReshape;

void bind_reshape(py::module_& module) {
  auto cls = described<NNReshape>(module, "MPSNNReshape");
  const std::string size =
      "reshaped_width: int, reshaped_height: int, reshaped_feature_channels: int";
  // Sets the size and goes on as the base class does.
  def_encodes(
      cls, "Any", "source_image",
      {size, "destination_state_is_temporary, " + size,
       "[destination_state], destination_state_is_temporary, " + size, "destination_image",
       "destination_state, destination_image"},
      "Encodes one image. Errors: another number of elements.",
      "Encodes a batch. Errors: another number of elements.",
      [](NNReshape& self, const Encoding& e) {
        const auto number = [&](const char* name) { return e.arguments.get<std::int64_t>(name); };
        if (e.arguments.given("reshaped_width")) {
          self.set_reshaped(number("reshaped_width"), number("reshaped_height"),
                            number("reshaped_feature_channels"));
        }
        return encode_forward(static_cast<mps::CNNKernel&>(self), e, e.images("source_images"));
      });
}

void bind_concatenation(py::module_& module) {
  auto cls = described<NNConcatenation>(module, "MPSNNConcatenation");
  def_encode(cls, true, "MPSImage | None", "source_images: list[Sequence[MPSImage]]",
             {"", "destination_image"},
             "One batch per source. Gradient: one MPSNNSlice per source.",
             [](NNConcatenation& self, const Encoding& e) {
               const auto batches = convert_list<mps::ImageBatch>(
                   e.arguments["source_images"], e.arguments.where("source_images"));
               return encode_into("destination_images", self, e, batches);
             });
}

}  // namespace

void bind_mps_rearrangement(py::module_& module) {
  bind_reshape(module);
  bind_concatenation(module);
}

}  // namespace traingraph::python
