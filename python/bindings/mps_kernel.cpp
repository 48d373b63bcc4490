#include "mps_bindings.h"
#include "mps_encoding.h"

namespace traingraph::python {
namespace {

using mps::CNNGradientKernel;
using mps::CNNKernel;
using mps::Kernel;
using mps::State;
using mps::StatePtr;

py::object offset_class;

// The result images, and the states where the form asks for them.
py::object encode_forward(CNNKernel& self, const Arguments& arguments, bool batch) {
  mps::CommandBuffer& buffer = command_buffer(arguments);
  const mps::ImageBatch sources =
      images(arguments, batch ? "source_images" : "source_image", batch);
  const char* const destination = batch ? "destination_images" : "destination_image";
  if (arguments.given(destination)) {
    mps::StateBatch states;
    const char* const name = batch ? "destination_states" : "destination_state";
    if (arguments.given(name)) {
      states = batch ? arguments.get<mps::StateBatch>(name)
                     : mps::StateBatch{arguments.get<StatePtr>(name)};
    }
    self.encode_batch(buffer, sources, states, images(arguments, destination, batch));
    return py::none();
  }
  if (!arguments.given("destination_state_is_temporary")) {
    return result_images(self.encode_batch(buffer, sources), batch);
  }
  const py::object list = list_of_states(arguments, batch);
  mps::StateBatch states;
  const mps::ImageBatch results = self.encode_batch(
      buffer, sources, states, arguments.get<bool>("destination_state_is_temporary"));
  return with_states(results, states, list, batch);
}

py::object encode_gradient(CNNGradientKernel& self, const Arguments& arguments, bool batch) {
  mps::CommandBuffer& buffer = command_buffer(arguments);
  const auto gradients = images(arguments, batch ? "source_gradients" : "source_gradient", batch);
  const auto sources = images(arguments, batch ? "source_images" : "source_image", batch);
  const char* const name = batch ? "gradient_states" : "gradient_state";
  const mps::StateBatch states =
      batch ? arguments.get<mps::StateBatch>(name) : mps::StateBatch{arguments.get<StatePtr>(name)};
  const char* const destination = batch ? "destination_gradients" : "destination_gradient";
  if (arguments.given(destination)) {
    self.encode_batch(buffer, gradients, sources, states, images(arguments, destination, batch));
    return py::none();
  }
  return result_images(self.encode_batch(buffer, gradients, sources, states), batch);
}

py::object result_states(const CNNKernel& self, const Arguments& arguments, bool batch,
                         bool temporary) {
  const char* const name =
      arguments.given("for_source_image") ? "for_source_image" : "source_image";
  const mps::ImageBatch sources = images(arguments, name, batch);
  const mps::CommandBuffer* on = temporary ? &command_buffer(arguments) : nullptr;
  const mps::StateBatch states = self.result_state_batch(sources, on);
  return batch ? py::cast(states) : py::cast(states[0]);
}

void bind_forward_kernel(py::module_& module) {
  auto cls = described<CNNKernel>(module, "MPSCNNKernel");
  cls.def("is_result_state_reused_across_batch", &CNNKernel::is_result_state_reused_across_batch,
          "Whether one state serves all images of a batch.");
  cls.def("append_batch_barrier", &CNNKernel::append_batch_barrier,
          "Whether the whole batch must be done before anybody reads a result.");
  def_method(cls, "encode", "typing.Any",
             {"command_buffer: MTLCommandBuffer, source_image: MPSImage, "
              "destination_image: MPSImage",
              "command_buffer: MTLCommandBuffer, source_image: MPSImage, "
              "destination_state: MPSState, destination_image: MPSImage",
              "command_buffer: MTLCommandBuffer, source_image: MPSImage",
              "command_buffer: MTLCommandBuffer, source_image: MPSImage, "
              "destination_state: list[MPSState], destination_state_is_temporary: bool",
              "command_buffer: MTLCommandBuffer, source_image: MPSImage, "
              "destination_state_is_temporary: bool"},
             "Encodes one image. Without a destination it returns a new one; with "
             "destination_state_is_temporary the image and its state, which a given list gets.",
             [](CNNKernel& self, const Arguments& a) { return encode_forward(self, a, false); });
  def_method(
      cls, "encode_batch", "typing.Any",
      {"command_buffer: MTLCommandBuffer, source_images: collections.abc.Sequence[MPSImage], "
       "destination_images: collections.abc.Sequence[MPSImage]",
       "command_buffer: MTLCommandBuffer, source_images: collections.abc.Sequence[MPSImage], "
       "destination_states: collections.abc.Sequence[MPSState], destination_images: "
       "collections.abc.Sequence[MPSImage]",
       "command_buffer: MTLCommandBuffer, source_images: collections.abc.Sequence[MPSImage]",
       "command_buffer: MTLCommandBuffer, source_images: collections.abc.Sequence[MPSImage], "
       "destination_states: list[MPSState], destination_state_is_temporary: bool",
       "command_buffer: MTLCommandBuffer, source_images: collections.abc.Sequence[MPSImage], "
       "destination_state_is_temporary: bool"},
      "Encodes a batch; the array of sources may be longer than that of destinations.",
      [](CNNKernel& self, const Arguments& a) { return encode_forward(self, a, true); });
  const std::string one =
      "for_source_image: MPSImage, source_states: collections.abc.Sequence[MPSState] | None = "
      "None, "
      "destination_image: MPSImage | None = None";
  const std::string several =
      "for_source_image: collections.abc.Sequence[MPSImage], source_states: "
      "list[collections.abc.Sequence[MPSState]] | None = None, "
      "destination_image: collections.abc.Sequence[MPSImage] | None = None";
  def_method(
      cls, "result_state", "MPSState", {one}, "A new permanent state.",
      [](CNNKernel& self, const Arguments& a) { return result_states(self, a, false, false); });
  def_method(cls, "result_state_batch", "collections.abc.Sequence[MPSState]", {several},
             "New permanent states.", [](CNNKernel& self, const Arguments& a) {
               return result_states(self, a, true, false);
             });
  const std::string on = "command_buffer: MTLCommandBuffer, ";
  def_method(
      cls, "temporary_result_state", "MPSState", {on + one.substr(4)},
      "A new state that lives on the command buffer, with a read count of 1.",
      [](CNNKernel& self, const Arguments& a) { return result_states(self, a, false, true); });
  def_method(
      cls, "temporary_result_state_batch", "collections.abc.Sequence[MPSState]",
      {on + several.substr(4)},
      "New states that live on the command buffer, each with a read count of 1.",
      [](CNNKernel& self, const Arguments& a) { return result_states(self, a, true, true); });
  def_method(cls, "destination_image_descriptor", "MPSImageDescriptor",
             {"for_source_images: collections.abc.Sequence[MPSImage], source_states: "
              "collections.abc.Sequence[MPSState] | None = None"},
             "The size of a result by the padding policy; sets the offset.",
             [](CNNKernel& self, const Arguments& a) {
               const auto sources = a.get<mps::ImageBatch>("for_source_images");
               if (sources.empty()) throw InvalidArgument("[MPSCNNKernel] expected a source image");
               return self.destination_image_descriptor(sources[0]->descriptor());
             });
}

void bind_gradient_kernel(py::module_& module) {
  auto cls = described<CNNGradientKernel>(module, "MPSCNNGradientKernel");
  def_method(
      cls, "encode", "MPSImage | None",
      {"command_buffer: MTLCommandBuffer, source_gradient: MPSImage, "
       "source_image: MPSImage, gradient_state: MPSState",
       "command_buffer: MTLCommandBuffer, source_gradient: MPSImage, "
       "source_image: MPSImage, gradient_state: MPSState, destination_gradient: MPSImage"},
      "Encodes one image. Without a destination it sets the secondary properties from the "
      "state and returns a new image; with one it uses the properties as they are.",
      [](CNNGradientKernel& self, const Arguments& a) { return encode_gradient(self, a, false); });
  def_method(
      cls, "encode_batch", "collections.abc.Sequence[MPSImage] | None",
      {"command_buffer: MTLCommandBuffer, source_gradients: collections.abc.Sequence[MPSImage], "
       "source_images: collections.abc.Sequence[MPSImage], gradient_states: "
       "collections.abc.Sequence[MPSState]",
       "command_buffer: MTLCommandBuffer, source_gradients: collections.abc.Sequence[MPSImage], "
       "source_images: collections.abc.Sequence[MPSImage], gradient_states: "
       "collections.abc.Sequence[MPSState], "
       "destination_gradients: collections.abc.Sequence[MPSImage]"},
      "Encodes a batch, with one state per image or the same for all.",
      [](CNNGradientKernel& self, const Arguments& a) { return encode_gradient(self, a, true); });
  def_method(
      cls, "destination_image_descriptor", "MPSImageDescriptor",
      {"for_source_images: collections.abc.Sequence[MPSImage], source_states: "
       "collections.abc.Sequence[MPSState]"},
      "for_source_images: the gradient and the forward source. Sets the secondary "
      "properties from the state.",
      [](CNNGradientKernel& self, const Arguments& a) {
        const auto sources = a.get<mps::ImageBatch>("for_source_images");
        if (sources.size() != 2) {
          throw InvalidArgument(
              "[MPSCNNGradientKernel] expected the gradient and the forward source but got " +
              std::to_string(sources.size()) + " images");
        }
        return self.destination_image_descriptor({sources[0]}, {sources[1]},
                                                 a.get<mps::StateBatch>("source_states"));
      });
}

}  // namespace

py::object from_offset(const mps::Offset& offset) {
  return offset_class(offset.x, offset.y, offset.z);
}

mps::Offset to_offset(py::handle value, const char* subject) {
  mps::Offset offset;
  if (!py::isinstance<py::sequence>(value))
    refuse({subject, "value", "(x, y) or (x, y, z)"}, value);
  const py::tuple items = py::tuple(py::reinterpret_borrow<py::object>(value));
  if (items.size() != 2 && items.size() != 3) {
    refuse({subject, "value", "(x, y) or (x, y, z)"}, value);
  }
  offset.x = to_integer(items[0], {subject, "x", "int"});
  offset.y = to_integer(items[1], {subject, "y", "int"});
  if (items.size() == 3) offset.z = to_integer(items[2], {subject, "z", "int"});
  return offset;
}

mps::Region to_region(py::handle value, const char* subject) {
  const char* const expected = "MTLRegion or (x, y), (width, height)";
  if (!py::isinstance<py::sequence>(value)) refuse({subject, "value", expected}, value);
  const py::tuple items = py::tuple(py::reinterpret_borrow<py::object>(value));
  if (items.size() != 2) refuse({subject, "value", expected}, value);
  const mps::Offset size = to_offset(items[1], subject);
  mps::Region region;
  region.origin = to_offset(items[0], subject);
  region.width = size.x;
  region.height = size.y;
  if (py::len(items[1]) == 3) region.depth = size.z;
  return region;
}

py::object from_region(const mps::Region& region) {
  const py::module_ mps = py::module_::import("traingraph.mps");
  const mps::Offset& at = region.origin;
  return mps.attr("MTLRegion")(mps.attr("MTLOrigin")(at.x, at.y, at.z),
                               mps.attr("MTLSize")(region.width, region.height, region.depth));
}

void bind_mps_kernel(py::module_& module) {
  const py::object named = py::module_::import("collections").attr("namedtuple");
  offset_class = named("MPSOffset", "x y z", py::arg("defaults") = py::make_tuple(0),
                       py::arg("module") = "traingraph._core");
  offset_class.attr("__qualname__") = "_MPSOffset";  // where pickle finds it
  offset_class.inc_ref();                            // kept for the life of the process
  module.attr("_MPSOffset") = offset_class;
  bind_mps_kernel_classes(module);
  auto kernel = described<Kernel>(module, "MPSKernel");
  kernel.def("__repr__", [](const Kernel& self) { return "<" + self.description() + ">"; });
  auto state = described<State>(module, "MPSState");
  state.def("__repr__", [](const State& self) { return "<" + self.description() + ">"; });
  bind_forward_kernel(module);
  bind_gradient_kernel(module);
}

}  // namespace traingraph::python
