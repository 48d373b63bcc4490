// The masks of dropout.
#include "mps/mps_bindings.h"

namespace traingraph::python {

void bind_mps_dropout(py::module_& module) {
  using State = mps::CNNDropoutGradientState;
  auto state = described<State>(module, "MPSCNNDropoutGradientState");
  state.def(
      "mask_data",
      [](const State& self) {
        const std::vector<std::uint8_t> mask = [&self] {
          const ReleasedGil released;
          return self.mask_data();
        }();
        return py::bytes(reinterpret_cast<const char*>(mask.data()), mask.size());
      },
      "One byte per element of the mask, 1 where it keeps. Shapes: (rows, columns, channels). "
      "Errors: before the state was encoded, unless it is set.");
  def_method(
      state, "set_mask_data", "None", {"data: bytes"},
      "The mask that MPSCNNDropout takes in place of its own when it is encoded with this state, "
      "as mask_data() gives it; what is not 0 keeps. An addition to Apple's state. Errors: another "
      "length; a state that was encoded.",
      [](State& self, const Arguments& arguments) {
        const py::bytes data = arguments.get<py::bytes>("data");
        const std::string_view bytes = data;
        self.set_mask_data({bytes.begin(), bytes.end()});
      });
}

}  // namespace traingraph::python
