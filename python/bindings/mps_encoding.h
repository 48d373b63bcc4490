#pragma once

#include <functional>

#include "mps_bindings.h"

// Arguments of encode() and encode_batch().
namespace traingraph::python {

inline mps::CommandBuffer& command_buffer(const Arguments& arguments) {
  // The caller holds it.
  return *arguments.get<mps::CommandBufferPtr>("command_buffer");
}

// A batch, or one image as a batch.
inline mps::ImageBatch images(const Arguments& arguments, const char* name, bool batch) {
  if (batch) return arguments.get<mps::ImageBatch>(name);
  return {arguments.get<mps::ImagePtr>(name)};
}

inline py::object result_images(const mps::ImageBatch& results, bool batch) {
  return batch ? py::cast(results) : py::cast(results[0]);
}

// MPSNNPaddingMethod by member, name or number, or of an object with padding_method().
inline int padding_method(const py::object& value) {
  const py::object method =
      py::hasattr(value, "padding_method") ? value.attr("padding_method")() : value;
  return static_cast<int>(enum_value("MPSNNPaddingMethod", method));
}

// Where new states go: the caller's list, or None. Raises DataTypeError for anything else.
inline py::object list_of_states(const Arguments& arguments, bool batch) {
  const char* const name = batch ? "destination_states" : "destination_state";
  if (!arguments.given(name)) return py::none();
  py::object list = arguments[name];
  if (!py::isinstance<py::list>(list)) refuse(arguments.where(name), list);
  return list;
}

// Images and their new states as a pair; or the images alone, and the states in the caller's list.
inline py::object with_states(const mps::ImageBatch& results, const mps::StateBatch& states,
                              const py::object& list, bool batch) {
  py::object made = result_images(results, batch);
  if (list.is_none()) {
    return py::make_tuple(std::move(made), batch ? py::cast(states) : py::cast(states[0]));
  }
  for (const mps::StatePtr& state : states) list.attr("append")(state);
  return made;
}

// (x, y) or (x, y, z).
mps::Offset to_offset(py::handle value, const char* subject);
py::object from_offset(const mps::Offset& offset);
// MTLRegion, or (x, y[, z]), (width, height[, depth]).
mps::Region to_region(py::handle value, const char* subject);
py::object from_region(const mps::Region& region);

// Whether returned images are temporary: an addition of traingraph in place of an allocator object.
template <typename Class>
void def_allocator(Class& cls) {
  using Self = typename Class::type;
  cls.def_property(
      "makes_temporary_images", [](const Self& self) { return self.makes_temporary_images; },
      [](Self& self, bool value) { self.makes_temporary_images = value; },
      "Whether the forms that return images make temporary ones, as at the beginning; an addition "
      "of traingraph in place of destination_image_allocator.");
}

}  // namespace traingraph::python
