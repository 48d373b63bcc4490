#include <pybind11/numpy.h>

#include "data.h"
#include "mps_bindings.h"

namespace traingraph::python {
namespace {

using mps::Image;
using mps::ImageDescriptor;
using mps::ImagePtr;
using mps::TemporaryImage;

constexpr const char* kChw = "MPSDataLayout.FEATURE_CHANNELS_X_HEIGHT_X_WIDTH";

void write(Image& self, const Arguments& arguments) {
  const DataType type = data_type(self.descriptor().channel_format);
  const TensorData data =
      readable_data(arguments["data_bytes"], type, {"MPSImage.write_bytes", "image", self.label});
  const auto layout = arguments.get<mps::DataLayout>("data_layout");
  const auto index = arguments.get<std::int64_t>("image_index");
  const py::gil_scoped_release release;
  self.write_bytes(data.bytes, data.length, layout, index);
}

void read(Image& self, const Arguments& arguments) {
  const DataType type = data_type(self.descriptor().channel_format);
  const TensorData data =
      writable_data(arguments["data_bytes"], type, {"MPSImage.read_bytes", "image", self.label});
  const auto layout = arguments.get<mps::DataLayout>("data_layout");
  const auto index = arguments.get<std::int64_t>("image_index");
  const py::gil_scoped_release release;
  self.read_bytes(data.bytes, data.length, layout, index);
}

}  // namespace

void bind_mps_image(py::module_& module) {
  auto descriptor =
      py::class_<ImageDescriptor>(module, "MPSImageDescriptor", "The format and size of images.");
  def_factory(
      descriptor, "image_descriptor", "MPSImageDescriptor",
      {"with_channel_format: MPSImageFeatureChannelFormat | str, width: int, height: int, "
       "feature_channels: int, number_of_images: int = 1, usage: int = 0"},
      "Types: float32 or float16, float64 on the reference loops. `usage` says nothing here.",
      [](const Arguments& arguments) {
        return ImageDescriptor{arguments.get<mps::ChannelFormat>("with_channel_format"),
                               arguments.get<std::int64_t>("width"),
                               arguments.get<std::int64_t>("height"),
                               arguments.get<std::int64_t>("feature_channels"),
                               arguments.get<std::int64_t>("number_of_images")};
      });
  descriptor.def_readwrite("width", &ImageDescriptor::width, "Columns.");
  descriptor.def_readwrite("height", &ImageDescriptor::height, "Rows.");
  descriptor.def_readwrite("feature_channels", &ImageDescriptor::feature_channels, "Channels.");
  descriptor.def_readwrite("number_of_images", &ImageDescriptor::number_of_images, "Images.");
  descriptor.def_property(
      "channel_format", [](const ImageDescriptor& self) { return self.channel_format; },
      [](ImageDescriptor& self, mps::ChannelFormat value) { self.channel_format = value; },
      "What an element is.");
  def_copy(descriptor, [](const ImageDescriptor& self) { return self; });
  descriptor.def("__repr__", [](const ImageDescriptor& self) {
    return "<MPSImageDescriptor " + to_string(self) + ">";
  });

  auto image =
      py::class_<Image, ImagePtr>(module, "MPSImage", "Pixels on a device: one image or several.");
  def_init(image, {"device: MTLDevice | MLCDevice | str, image_descriptor: MPSImageDescriptor"},
           "Zeros.", [](const Arguments& arguments) {
             return Image::create(to_mps_device(arguments["device"]),
                                  arguments.get<ImageDescriptor>("image_descriptor"));
           });
  image.def_property_readonly("device", &Image::device, "Where it lies.");
  image.def_property_readonly(
      "width", [](const Image& self) { return self.descriptor().width; }, "Columns.");
  image.def_property_readonly(
      "height", [](const Image& self) { return self.descriptor().height; }, "Rows.");
  image.def_property_readonly(
      "feature_channels", [](const Image& self) { return self.descriptor().feature_channels; },
      "Channels.");
  image.def_property_readonly(
      "number_of_images", [](const Image& self) { return self.descriptor().number_of_images; },
      "Images.");
  image.def_property_readonly(
      "feature_channel_format", [](const Image& self) { return self.descriptor().channel_format; },
      "What an element is.");
  image.def_readwrite("label", &Image::label, "A name for messages.");
  image.def("batch_representation", &Image::batch_representation,
            "One image per image of this one, sharing its memory.");
  image.def(
      "resource_size",
      [](const Image& self) {
        return self.image_bytes() * static_cast<std::size_t>(self.descriptor().number_of_images);
      },
      "Units: bytes.");
  const std::string forms = std::string(
                                "data_bytes: numpy.typing.ArrayLike, "
                                "data_layout: MPSDataLayout | str = ") +
                            kChw + ", image_index: int = 0";
  def_method(image, "write_bytes", "None", {forms},
             "Copies one image in. Types: the image's own. Errors: another number of elements.",
             write);
  def_method(image, "read_bytes", "None", {forms},
             "Copies one image out, behind all work committed before. Errors: another type or "
             "number of elements; a temporary image.",
             read);
  image.def("__repr__", [](const Image& self) { return "<" + self.description() + ">"; });

  auto temporary = py::class_<TemporaryImage, Image, std::shared_ptr<TemporaryImage>>(
      module, "MPSTemporaryImage",
      "An image that lives on one command buffer and may be read `read_count` times.");
  def_factory(temporary, "temporary_image", "MPSTemporaryImage",
              {"command_buffer: MTLCommandBuffer, image_descriptor: MPSImageDescriptor"},
              "A new one with a read count of 1.", [](const Arguments& arguments) {
                return Image::temporary(*arguments.get<mps::CommandBufferPtr>("command_buffer"),
                                        arguments.get<ImageDescriptor>("image_descriptor"));
              });
  temporary.def_property(
      "read_count", [](const TemporaryImage& self) { return self.read_count(); },
      [](TemporaryImage& self, std::int64_t value) { self.set_read_count(value); },
      "How often it may still be read. Errors: raising it from 0.");
}

}  // namespace traingraph::python
