// Adds encode() to MPSCNNKernel and MPSCNNGradientKernel, and converts offsets and regions.
#include "mps/encoding.h"
#include "mps/mps_bindings.h"

namespace traingraph::python {
namespace {

using mps::CNNGradientKernel;
using mps::CNNKernel;

py::object offset_class;

void bind_forward_kernel(py::module_& module) {
  auto cls = described<CNNKernel>(module, "MPSCNNKernel");
  def_encodes(cls, "Any", "source_image", kForwardForms,
              "Encodes one image. Without a destination it returns a new one; with "
              "destination_state_is_temporary the image and its state, which a given list gets.",
              "Encodes a batch; the array of sources may be longer than that of destinations.",
              [](CNNKernel& self, const Encoding& e) {
                return encode_forward(self, e, e.images("source_images"));
              });
  def_result_states(cls, {"source_image"}, [](const CNNKernel& self, const auto& of, auto* on) {
    return self.result_state_batch(of[0], on);
  });
  def_destination_descriptor(
      cls, 1, "Sequence[MPSState] | None = None",
      "The size of a result by the padding policy; sets the offset.",
      [](CNNKernel& self, const auto& sources, const Arguments& a) {
        return self.destination_image_descriptor(
            sources,
            a.template optional<mps::StateBatch>("source_states").value_or(mps::StateBatch{}));
      });
}

void bind_gradient_kernel(py::module_& module) {
  auto cls = described<CNNGradientKernel>(module, "MPSCNNGradientKernel");
  def_encodes(cls, "MPSImage | None", "source_gradient, source_image, gradient_state",
              {"", "destination_gradient"},
              "Encodes one image. Without a destination it sets the secondary properties from the "
              "state and returns a new image; with one it uses the properties as they are.",
              "Encodes a batch, with one state per image or the same for all.",
              [](CNNGradientKernel& self, const Encoding& e) {
                return encode_into("destination_gradients", self, e, e.images("source_gradients"),
                                   e.images("source_images"), e.states("gradient_states"));
              });
  def_destination_descriptor(
      cls, 2, "Sequence[MPSState]",
      "for_source_images: the gradient and the forward source. Sets the secondary properties from "
      "the state.",
      [](CNNGradientKernel& self, const auto& sources, const Arguments& a) {
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
  bind_forward_kernel(module);
  bind_gradient_kernel(module);
}

}  // namespace traingraph::python
