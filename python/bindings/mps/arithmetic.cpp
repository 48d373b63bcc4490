#include "mps/encoding.h"

namespace traingraph::python {

void bind_mps_arithmetic(py::module_& module) {
  using Self = mps::CNNBinaryKernel;
  auto cls = described<Self>(module, "MPSCNNBinaryKernel");
  def_encodes(cls, "Any", "primary_image, secondary_image", kForwardForms,
              "Encodes one pair. Without a destination it returns a new image; with "
              "destination_state_is_temporary the image and its state, which a given list gets.",
              "Encodes as many pairs as there are images.", [](Self& self, const Encoding& e) {
                return encode_forward(self, e, e.images("primary_images"),
                                      e.images("secondary_images"));
              });
  def_result_states(cls, {"primary_image", "secondary_image"},
                    [](const Self& self, const auto& of, auto* on) {
                      return self.result_state_batch(of[0], of[1], on);
                    });
  def_destination_descriptor(cls, 2, "Sequence[MPSState] | None = None", "The size of a result.",
                             [](Self& self, const auto& sources, const Arguments&) {
                               return self.sized_result({sources[0]}, {sources[1]});
                             });
}

}  // namespace traingraph::python
