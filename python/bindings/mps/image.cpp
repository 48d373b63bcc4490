// Binds MPSImage, MPSTemporaryImage and MPSImageDescriptor: creation, parts, read counts, and
// pixels read and written.
#include <pybind11/numpy.h>

#include "convert/data.h"
#include "mps/encoding.h"
#include "mps/mps_bindings.h"

namespace traingraph::python {
namespace {

using mps::Image;
using mps::ImageDescriptor;
using mps::ImagePtr;
using mps::TemporaryImage;

constexpr const char* kChw = "MPSDataLayout.FEATURE_CHANNELS_X_HEIGHT_X_WIDTH";

// (location, length), as NSRange has them.
mps::Neighbours range_of(const Arguments& arguments, const char* name) {
  const auto numbers = arguments.get<std::vector<std::int64_t>>(name);
  if (numbers.size() == 2) return {numbers[0], numbers[1]};
  throw InvalidArgument("[MPSImage] expected " + std::string(name) +
                        " (location, length) but got " + std::to_string(numbers.size()) +
                        " numbers");
}

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
  const mps::Neighbours channels = range_of(arguments, "feature_channel_info");
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
  const py::module_ numpy = py::module_::import("numpy");
  if (!py::isinstance(value, numpy.attr("ndarray"))) return load(value, DataType::kUInt8, target);
  if (const py::object type = value.attr("dtype"); !type.equal(numpy.attr("dtype")("uint16"))) {
    throw DataTypeError("[" + std::string(target.subject) +
                        "] expected an array of uint16 but got " +
                        py::cast<std::string>(py::str(value.attr("dtype"))));
  }
  if (!py::cast<bool>(value.attr("flags").attr("c_contiguous"))) {
    throw InvalidArgument("[" + std::string(target.subject) +
                          "] expected an array without gaps but got one with strides");
  }
  return load(value.attr("reshape")(-1).attr("view")("uint8"), DataType::kUInt8, target);
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

ImagePtr held(Image& self) { return py::cast<ImagePtr>(py::cast(&self)); }

// The images of one, or of these of its images.
mps::ImageBatch rows_of(Image& self, const Arguments& arguments) {
  if (!arguments.given("with_sub_range")) return self.batch_representation();
  const mps::Neighbours images = range_of(arguments, "with_sub_range");
  return Image::part_of(held(self), images, {0, self.descriptor().feature_channels})
      ->batch_representation();
}

}  // namespace

void bind_mps_image(py::module_& module) {
  auto descriptor =
      BoundClass<ImageDescriptor>(module, "MPSImageDescriptor", "The format and size of images.");
  def_factory(
      descriptor, "image_descriptor", "MPSImageDescriptor",
      {"with_channel_format: MPSImageFeatureChannelFormat | str, width: int, height: int, "
       "feature_channels: int, number_of_images: int = 1, usage: int = 0"},
      "Types: float32 or float16, whole numbers of 8 or 16 bits for those from 0 to 1 (unorm8, "
      "unorm16), float64 on the reference implementation. `usage` says nothing here.",
      [](const Arguments& arguments) {
        const std::string formats = R"("unorm8", "unorm16", "float16", "float32", "float64")";
        return ImageDescriptor{arguments.get_of<mps::ChannelFormat>("with_channel_format", formats),
                               arguments.get<std::int64_t>("width"),
                               arguments.get<std::int64_t>("height"),
                               arguments.get<std::int64_t>("feature_channels"),
                               arguments.get<std::int64_t>("number_of_images")};
      });
  descriptor.def_readwrite("width", &ImageDescriptor::width, "Columns.");
  descriptor.def_readwrite("height", &ImageDescriptor::height, "Rows.");
  descriptor.def_readwrite("feature_channels", &ImageDescriptor::feature_channels, "Channels.");
  descriptor.def_readwrite("number_of_images", &ImageDescriptor::number_of_images, "Images.");
  descriptor.def_readwrite("channel_format", &ImageDescriptor::channel_format,
                           "What an element is.");
  def_copy(descriptor, [](const ImageDescriptor& self) { return self; });
  descriptor.def("__repr__", [](const ImageDescriptor& self) {
    return "<MPSImageDescriptor " + to_string(self) + ">";
  });

  auto image =
      BoundClass<Image, ImagePtr>(module, "MPSImage", "Pixels on a device: one image or several.");
  def_init(
      image,
      {"device: MTLDevice | MLCDevice | str, image_descriptor: MPSImageDescriptor",
       "parent_image: MPSImage, slice_range: tuple[int, int], feature_channels: int"},
      "Zeros, or a part of another image that shares its memory: slices (location, length), of "
      "which an image has one for every four channels. Errors: slices that are not there.",
      [](const Arguments& arguments) {
        if (arguments.given("parent_image")) {
          return Image::slices_of(arguments.get<ImagePtr>("parent_image"),
                                  range_of(arguments, "slice_range"),
                                  arguments.get<std::int64_t>("feature_channels"));
        }
        return Image::create(to_mps_device(arguments["device"]),
                             arguments.get<ImageDescriptor>("image_descriptor"));
      });
  image.def_property_readonly("device", &Image::device, "Where it lies.");
  const auto size = [&image](const char* name, auto member, const char* doc) {
    image.def_property_readonly(
        name, [member](const Image& self) { return self.descriptor().*member; }, doc);
  };
  size("width", &ImageDescriptor::width, "Columns.");
  size("height", &ImageDescriptor::height, "Rows.");
  size("feature_channels", &ImageDescriptor::feature_channels, "Channels.");
  size("number_of_images", &ImageDescriptor::number_of_images, "Images.");
  size("feature_channel_format", &ImageDescriptor::channel_format, "What an element is.");
  image.def_readwrite("label", &Image::label, "A name for messages.");
  image.def_property_readonly(
      "parent", &Image::parent,
      "What sub_image() or the constructor made it a part of; None for images of their own, "
      "temporary ones, and those of a batch representation.");
  def_method(image, "batch_representation", "Sequence[MPSImage]",
             {"", "with_sub_range: tuple[int, int]"},
             "One image per image of this one, or of those in (location, length), sharing its "
             "memory. Errors: images that are not there.",
             [](Image& self, const Arguments& arguments) { return rows_of(self, arguments); });
  def_method(image, "sub_image", "MPSImage", {"with_feature_channel_range: tuple[int, int]"},
             "These channels (location, length) of all images, sharing their memory. Errors: a "
             "location that is no multiple of 4; channels that are not there.",
             [](Image& self, const Arguments& arguments) {
               return Image::part_of(held(self), {0, self.descriptor().number_of_images},
                                     range_of(arguments, "with_feature_channel_range"));
             });
  image.def(
      "resource_size",
      [](const Image& self) {
        return self.image_bytes() * static_cast<std::size_t>(self.descriptor().number_of_images);
      },
      "Units: bytes.");
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
  def_method(image, "synchronize", "None", {"command_buffer: MTLCommandBuffer"},
             "Before the host reads the image behind this buffer's run; reading waits for the "
             "device here in any case. Errors: a temporary image; a buffer of another device, or "
             "one that was committed.",
             [](Image& self, const Arguments& arguments) {
               self.synchronize(*arguments.get<mps::CommandBufferPtr>("command_buffer"));
             });
  def_getter(image, "default_allocator", "typing.Any", "Makes permanent images.",
             &Image::default_allocator);
  image.def("__repr__", [](const Image& self) { return "<" + self.description() + ">"; });

  auto temporary = BoundClass<TemporaryImage, Image, std::shared_ptr<TemporaryImage>>(
      module, "MPSTemporaryImage",
      "An image that lives on one command buffer and may be read `read_count` times.");
  def_factory(temporary, "temporary_image", "MPSTemporaryImage",
              {"command_buffer: MTLCommandBuffer, image_descriptor: MPSImageDescriptor"},
              "A new one with a read count of 1.", [](const Arguments& arguments) {
                return Image::temporary(*arguments.get<mps::CommandBufferPtr>("command_buffer"),
                                        arguments.get<ImageDescriptor>("image_descriptor"));
              });
  def_factory(temporary, "default_allocator", "typing.Any", {""}, "Makes temporary images.",
              [](const Arguments&) { return TemporaryImage::default_allocator(); });
  def_factory(
      temporary, "prefetch_storage", "None",
      {"command_buffer: MTLCommandBuffer, image_descriptor_list: "
       "Iterable[MPSImageDescriptor]"},
      "Makes the memory that programs work in large enough for all of these at once; waits "
      "for what was committed.",
      [](const Arguments& arguments) {
        std::int64_t bytes = 0;
        const Where where = arguments.where("image_descriptor_list");
        for (const py::object& item : to_items(arguments["image_descriptor_list"], where)) {
          const auto d = convert<ImageDescriptor>(item, where);
          const std::int64_t more =
              byte_count({d.number_of_images, d.feature_channels, d.height, d.width},
                         data_type(d.channel_format));
          if (more < 0 || more > kMostBytes - bytes) {
            throw ShapeError("[" + where.subject + "] expected images of at most " +
                             std::to_string(kMostBytes) + " bytes but got " + std::to_string(more) +
                             " after " + std::to_string(bytes));
          }
          bytes += more;
        }
        mps::ContinuingCommandBuffer buffer(arguments.get<mps::CommandBufferPtr>("command_buffer"));
        const ReleasedGil released;
        buffer.prefetch_heap(static_cast<std::size_t>(bytes));
      });
  temporary.def_property(
      "read_count", [](const TemporaryImage& self) { return self.read_count(); },
      [](TemporaryImage& self, std::int64_t value) { self.set_read_count(value); },
      "How often it may still be read. Errors: raising it from 0.");
}

}  // namespace traingraph::python
