// Binds images, and adds copies of pixels from and to Python's memory.
#include <pybind11/numpy.h>

#include "convert/data.h"
#include "convert/numpy_arrays.h"
#include "mps/encoding.h"
#include "mps/mps_bindings.h"

namespace traingraph::python {
namespace {

using mps::Image;
using mps::ImageDescriptor;

constexpr const char* kChw = "MPSDataLayout.FEATURE_CHANNELS_X_HEIGHT_X_WIDTH";

mps::PixelLayout layout_of(const Arguments& arguments) {
  mps::PixelLayout layout;
  layout.layout = arguments.get<mps::DataLayout>("data_layout");
  if (!arguments.given("region")) return layout;
  const mps::Region region = to_region(arguments["region"], "MPSImage.region");
  if (region.origin.z != 0) {
    throw InvalidArgument(
        "[MPSImage] expected a region from image_index on, with z of 0, but got " +
        std::to_string(region.origin.z));
  }
  const mps::Neighbours channels =
      to_neighbours(arguments["feature_channel_info"], arguments.where("feature_channel_info"));
  layout.x = region.origin.x;
  layout.y = region.origin.y;
  layout.width = region.width;
  layout.height = region.height;
  layout.images = region.depth == INT64_MAX ? 1 : region.depth;
  layout.first_channel = channels.first;
  layout.channels = channels.count;
  const auto stride = [&arguments](const char* name) {
    return arguments.given(name) ? arguments.get<std::int64_t>(name) : 0;
  };
  layout.bytes_per_column = stride("bytes_per_column");
  layout.bytes_per_row = stride("bytes_per_row");
  layout.bytes_per_image = stride("bytes_per_image");
  return layout;
}

// `copy` moves pixels between the data and these images, from an index on.
template <typename Copy>
void transfer(const Arguments& arguments, Copy copy) {
  const mps::PixelLayout layout = layout_of(arguments);
  const auto index = arguments.get<std::int64_t>("image_index");
  const ReleasedGil released;
  copy(layout, index);
}

// What `load` makes of the caller's elements, in the format's own type.
template <typename Load>
TensorData elements(const Image& self, const py::object& value, const Target& target, Load load) {
  const std::size_t whole = levels_of(self.descriptor().channel_format) == 0
                                ? 0
                                : mps::element_bytes(self.descriptor().channel_format);
  if (whole == 0) return load(value, data_type(self.descriptor().channel_format), target);
  if (whole == 1) return load(value, DataType::kUInt8, target);
  // Bytes of numbers that no tensor has.
  if (!is_array(value)) return load(value, DataType::kUInt8, target);
  const py::object array = any_array(value, target);
  if (!py::object(array.attr("dtype")).equal(py::dtype("uint16"))) {
    throw DataTypeError("[" + std::string(target.subject) +
                        "] expected an array of uint16 but got " + dtype_name(array));
  }
  if (!py::cast<bool>(array.attr("flags").attr("c_contiguous"))) {
    throw InvalidArgument("[" + std::string(target.subject) +
                          "] expected an array without gaps but got one with strides");
  }
  return load(array.attr("reshape")(-1).attr("view")("uint8"), DataType::kUInt8, target);
}

void write(Image& self, const Arguments& arguments) {
  const TensorData data = elements(self, arguments["data_bytes"],
                                   {"MPSImage.write_bytes", "image", self.label}, readable_data);
  transfer(arguments, [&](const mps::PixelLayout& layout, std::int64_t index) {
    self.write_bytes(data.bytes, data.length, layout, index);
  });
}

void read(Image& self, const Arguments& arguments) {
  const TensorData data = elements(self, arguments["data_bytes"],
                                   {"MPSImage.read_bytes", "image", self.label}, writable_data);
  transfer(arguments, [&](const mps::PixelLayout& layout, std::int64_t index) {
    self.read_bytes(data.bytes, data.length, layout, index);
  });
}

}  // namespace

void bind_mps_image(py::module_& module) {
  bind_described(module, ImageDescriptor::class_description(), ownership<void>());
  bind_described(module, Image::class_description(), ownership<Image>());
  bind_described(module, mps::ImageAllocator::class_description(),
                 ownership<mps::ImageAllocator>());
  bind_described(module, mps::TemporaryImage::class_description(), ownership<Image>());
  auto image = described<Image>(module, "MPSImage");
  const std::string layout = ", data_layout: MPSDataLayout | str";
  const std::string end =
      "region: tuple[tuple[int, ...], tuple[int, ...]], "
      "feature_channel_info: tuple[int, int], image_index: int";
  const auto forms = [&](const std::string& type) {
    const std::string begin = "data_bytes: " + type + layout;
    return std::vector<std::string>{
        begin + " = " + kChw + ", image_index: int = 0",
        begin + ", bytes_per_row: int, " + end,
        begin + ", bytes_per_row: int, bytes_per_image: int, " + end,
    };
  };
  std::vector<std::string> writing = forms("ArrayLike");
  writing.push_back("data_bytes: ArrayLike" + layout +
                    ", bytes_per_column: int, bytes_per_row: int, bytes_per_image: int, " + end);
  def_method(image, "write_bytes", "None", writing,
             "Copies pixels in: one image, or a region (its depth counts images) and channels "
             "(offset, count) with the caller's strides. Types: the image's own. Units: bytes. "
             "Errors: another number of elements; strides too short; pixels that are not there.",
             write);
  def_method(image, "read_bytes", "None", forms(kWritten),
             "Copies pixels out, behind all work committed before; arguments as in write_bytes. "
             "Errors: another type or number of elements; a temporary image.",
             read);
}

}  // namespace traingraph::python
