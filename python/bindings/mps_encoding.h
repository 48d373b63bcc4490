#pragma once

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
