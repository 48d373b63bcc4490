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

namespace {

Shape two_or_three(py::handle value, const char* subject) {
  const Where where{subject, "value", "(x, y) or (x, y, z)"};
  if (PySequence_Check(value.ptr()) == 0) refuse(where, value);
  const std::vector<py::object> items = to_items(value, where);
  if (items.size() != 2 && items.size() != 3) refuse(where, value);
  Shape numbers;
  for (const char* const name : {"x", "y", "z"}) {
    if (numbers.size() == items.size()) break;
    numbers.push_back(to_integer(items[numbers.size()], {subject, name, "int"}));
  }
  return numbers;
}

}  // namespace

mps::Offset to_offset(py::handle value, const char* subject) {
  const Shape numbers = two_or_three(value, subject);
  return {numbers[0], numbers[1], numbers.size() == 3 ? numbers[2] : 0};
}

mps::Region to_region(py::handle value, const char* subject) {
  const Where where{subject, "value", "MTLRegion or (x, y), (width, height)"};
  if (PySequence_Check(value.ptr()) == 0) refuse(where, value);
  const std::vector<py::object> items = to_items(value, where);
  if (items.size() != 2) refuse(where, value);
  const Shape size = two_or_three(items[1], subject);
  mps::Region region;
  region.origin = to_offset(items[0], subject);
  region.width = size[0];
  region.height = size[1];
  if (size.size() == 3) region.depth = size[2];
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
