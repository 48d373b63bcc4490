#include "mps_bindings.h"
#include "mps_coding.h"
#include "mps_encoding.h"

namespace traingraph::python {
namespace {

using mps::CNNBinaryKernel;
using mps::CNNDropout;
using mps::CNNDropoutGradient;
using mps::CNNDropoutGradientState;
using mps::DropoutParameters;
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

constexpr const char* kDropoutForm =
    "device: MTLDevice | MLCDevice | str, keep_probability: float, seed: int, "
    "mask_stride_in_pixels: tuple[int, int, int] = (1, 1, 1)";

DropoutParameters dropout_parameters(const Arguments& arguments) {
  DropoutParameters p;
  p.keep_probability = arguments.get<float>("keep_probability");
  p.seed = static_cast<std::uint64_t>(arguments.get<std::int64_t>("seed"));
  const auto strides = convert_list<std::int64_t>(arguments["mask_stride_in_pixels"],
                                                  arguments.where("mask_stride_in_pixels"));
  if (strides.size() != 3) {
    throw InvalidArgument(
        "[MPSCNNDropout] expected mask_stride_in_pixels (width, height, depth) but got " +
        std::to_string(strides.size()) + " numbers");
  }
  p.mask_stride_x = strides[0];
  p.mask_stride_y = strides[1];
  p.mask_stride_channels = strides[2];
  return p;
}

template <typename T, typename Base>
void bind_dropout_kernel(py::module_& module, const char* name, const char* doc,
                         const char* detail) {
  auto cls = BoundClass<T, Base, std::shared_ptr<T>>(module, name, doc);
  def_kernel(cls, {kDropoutForm}, detail, [](const Arguments& arguments) {
    return std::make_shared<T>(to_mps_device(arguments["device"]), dropout_parameters(arguments));
  });
  cls.def_property_readonly(
      "keep_probability", [](const T& self) { return self.parameters().keep_probability; },
      "Above 0 and below 1.");
  cls.def_property_readonly(
      "seed", [](const T& self) { return self.parameters().seed; }, "Of the masks.");
  cls.def_property_readonly(
      "mask_stride_in_pixels",
      [](const T& self) {
        const DropoutParameters& p = self.parameters();
        return py::make_tuple(p.mask_stride_x, p.mask_stride_y, p.mask_stride_channels);
      },
      "(width, height, depth): 1, or 0: one decision for all elements along the axis.");
}

void bind_dropout(py::module_& module) {
  using State = CNNDropoutGradientState;
  auto state = BoundClass<State, mps::GradientState, std::shared_ptr<State>>(
      module, "MPSCNNDropoutGradientState", "Which mask an image got.");
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
  state.def(
      "set_mask_data",
      [](State& self, const py::bytes& data) {
        const std::string_view bytes = data;
        self.set_mask_data({bytes.begin(), bytes.end()});
      },
      py::arg("data"),
      "The mask that MPSCNNDropout takes in place of its own when it is encoded with this state, "
      "as mask_data() gives it; what is not 0 keeps. An addition to Apple's state. Errors: another "
      "length; a state that was encoded.");
  bind_dropout_kernel<CNNDropout, mps::CNNKernel>(
      module, "MPSCNNDropout", "x / keep_probability with that probability, else 0.",
      "Masks are a function of the seed, of how often the kernel was encoded, and of the element: "
      "the same one on every backend, but for Metal where it encodes Apple's kernel, which has "
      "other masks.");
  bind_dropout_kernel<CNNDropoutGradient, mps::CNNGradientKernel>(
      module, "MPSCNNDropoutGradient", "dx = dy mask / keep_probability.",
      "The mask is the state's. Errors: states that were not encoded together, in their order.");
}

}  // namespace

void bind_mps_arithmetic(py::module_& module) {
  bind_binary(module);
  bind_dropout(module);
}

}  // namespace traingraph::python
