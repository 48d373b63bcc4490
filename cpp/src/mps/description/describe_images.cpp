// Images, temporary ones, and their descriptor.
#include <traingraph/describe.h>
#include <traingraph/errors.h>
#include <traingraph/mps/coding.h>
#include <traingraph/mps/image.h>
#include <traingraph/mps/kernel.h>

#include "mps/description/describe_kernel.h"

namespace traingraph::mps {
namespace {

using Descriptors = std::vector<ImageDescriptor>;

constexpr const char* kImageDescriptor = "image_descriptor";
constexpr const char* kImageSize = "Its format and size.";

// The images of one, or of these of its images.
ImageBatch rows_of(Image& self, const Given& given) {
  if (given.find("with_sub_range") == nullptr) return self.batch_representation();
  return Image::part_of(self.shared_from_this(), given.get<Neighbours>("with_sub_range"),
                        {0, self.descriptor().feature_channels})
      ->batch_representation();
}

void prefetch_storage(const CommandBufferPtr& command_buffer, const Descriptors& descriptors) {
  std::int64_t bytes = 0;
  for (const ImageDescriptor& d : descriptors) {
    const std::int64_t more = byte_count(
        {d.number_of_images, d.feature_channels, d.height, d.width}, data_type(d.channel_format));
    if (more < 0 || more > kMostBytes - bytes) {
      throw ShapeError("[MPSTemporaryImage.prefetch_storage] expected images of at most " +
                       std::to_string(kMostBytes) + " bytes but got " + std::to_string(more) +
                       " after " + std::to_string(bytes));
    }
    bytes += more;
  }
  ContinuingCommandBuffer(command_buffer).prefetch_heap(static_cast<std::size_t>(bytes));
}

template <class T>
auto of_size(T ImageDescriptor::* member) {
  return [member](const Image& self) { return self.descriptor().*member; };
}

}  // namespace

const ClassDescription& ImageDescriptor::class_description() {
  using D = ImageDescriptor;
  constexpr const char* kFormat = "with_channel_format";
  Argument format = argument<ChannelFormat>(kFormat, "The type of an element.");
  format.accepted = R"("unorm8", "unorm16", "float16", "float32", "float64")";
  static const ClassDescription description =
      Describing<D>("MPSImageDescriptor", "The format and size of images.")
          .factory(kImageDescriptor,
                   "Types: float32 or float16, whole numbers of 8 or 16 bits for those from 0 to 1 "
                   "(unorm8, unorm16), float64 on the reference implementation.",
                   {{format, argument<std::int64_t>("width", "Columns."),
                     argument<std::int64_t>("height", "Rows."),
                     argument<std::int64_t>("feature_channels", "Channels."),
                     argument("number_of_images", std::int64_t{1}, "Images."),
                     argument("usage", std::int64_t{0}, "Ignored.")}},
                   [](const Given& given) {
                     const auto number = [&given](const char* name) {
                       return given.get<std::int64_t>(name);
                     };
                     return D{given.get<ChannelFormat>(kFormat), number("width"), number("height"),
                              number("feature_channels"), number("number_of_images")};
                   })
          .settable("width", &D::width, "Columns.")
          .settable("height", &D::height, "Rows.")
          .settable("feature_channels", &D::feature_channels, "Channels.")
          .settable("number_of_images", &D::number_of_images, "Images.")
          .settable("channel_format", &D::channel_format, "The type of an element.")
          .repr([](const D& self) { return to_string(self); });
  return description;
}

const ClassDescription& Image::class_description() {
  const auto channels = argument<std::int64_t>("feature_channels",
                                               "The number of channels of the part.", &kOneOrMore);
  static const ClassDescription description =
      Describing<Image, Image>("MPSImage", "Pixels on a device: one image or several.")
          .text(
              "Zeros, or a part of another image that shares its memory: slices (location, "
              "length), of which an image has one for every four channels. Errors: slices that are "
              "not there.")
          .form({argument<Device>("device", "The device that holds it."),
                 argument<ImageDescriptor>(kImageDescriptor, kImageSize)},
                [](const Given& given) {
                  return Image::create(given.get<Device>("device"),
                                       given.get<ImageDescriptor>(kImageDescriptor));
                })
          .form({argument<ImagePtr>("parent_image", "The image that it is a part of."),
                 argument<Neighbours>("slice_range", "(location, length), of slices."), channels},
                [](const Given& given) {
                  return Image::slices_of(given.get<ImagePtr>("parent_image"),
                                          given.get<Neighbours>("slice_range"),
                                          given.get<std::int64_t>("feature_channels"));
                })
          .property("device", &Image::device, "The device that holds it.")
          .property("width", of_size(&ImageDescriptor::width), "Columns.")
          .property("height", of_size(&ImageDescriptor::height), "Rows.")
          .property("feature_channels", of_size(&ImageDescriptor::feature_channels), "Channels.")
          .property("number_of_images", of_size(&ImageDescriptor::number_of_images), "Images.")
          .property("feature_channel_format", of_size(&ImageDescriptor::channel_format),
                    "The type of an element.")
          .settable("label", &Image::label, "A name for messages.")
          .optional_property("parent", &Image::parent,
                             "What sub_image() or the constructor made it a part of; None for "
                             "images of their own, temporary ones, and those of a batch "
                             "representation.")
          .function_of_forms("batch_representation",
                             "One image per image of this one, or of some, sharing its memory. "
                             "Errors: images that are not there.",
                             {{}, {argument<Neighbours>("with_sub_range", "(location, length).")}},
                             rows_of)
          .function("sub_image",
                    [](Image& self, const Neighbours& range) {
                      return Image::part_of(self.shared_from_this(),
                                            {0, self.descriptor().number_of_images}, range);
                    },
                    "Channels of all images, sharing their memory. Errors: a location that is no "
                    "multiple of 4; channels that are not there.",
                    {{"with_feature_channel_range", "(location, length)."}})
          .function(
              "resource_size",
              [](const Image& self) {
                return self.image_bytes() *
                       static_cast<std::size_t>(self.descriptor().number_of_images);
              },
              "Units: bytes.")
          .function("synchronize", &Image::synchronize,
                    "Before the host reads the image behind a buffer's run; reading waits for the "
                    "device here in any case. Errors: a temporary image; a buffer of another "
                    "device, or one that was committed.",
                    {{"command_buffer", "The command buffer that runs before."}})
          .class_function("default_allocator", &Image::default_allocator, "Makes permanent images.")
          .function("__repr__", described_text<Image>, "");
  return description;
}

const ClassDescription& TemporaryImage::class_description() {
  static const ClassDescription description =
      Describing<TemporaryImage, Image>("MPSTemporaryImage",
                                        "An image that lives on one command buffer and may be read "
                                        "`read_count` times.")
          .factory("temporary_image", "A new one with a read count of 1.",
                   {{argument<CommandBufferPtr>("command_buffer",
                                                "The command buffer that it lives on."),
                     argument<ImageDescriptor>(kImageDescriptor, kImageSize)}},
                   [](const Given& given) {
                     return Image::temporary(*given.get<CommandBufferPtr>("command_buffer"),
                                             given.get<ImageDescriptor>(kImageDescriptor));
                   })
          .class_function("default_allocator", &TemporaryImage::default_allocator,
                          "Makes temporary images.")
          .class_function("prefetch_storage", prefetch_storage,
                          "Makes the memory that programs work in large enough for all of these at "
                          "once; waits for what was committed.",
                          {{"command_buffer", "The command buffer that they live on."},
                           {"image_descriptor_list", "Their formats and sizes."}})
          .may_wait()
          .settable("read_count", &TemporaryImage::read_count, &TemporaryImage::set_read_count,
                    "How often it may still be read. Errors: raising it from 0.");
  return description;
}

const ClassDescription& ImageAllocator::class_description() {
  using MaybeKernel = std::optional<KernelPtr>;
  const auto of = [](const MaybeKernel& kernel) { return kernel ? kernel->get() : nullptr; };
  const Taken buffer = {"command_buffer", "The command buffer of temporary images."};
  const Taken descriptor = {kImageDescriptor, kImageSize};
  const Taken kernel = {"kernel", "The kernel that writes them, or None."};
  static const ClassDescription description =
      Describing<ImageAllocator, ImageAllocator>(
          "_MPSImageAllocator", "A default allocator: it makes the images that are returned.")
          .function("image",
                    [of](ImageAllocator& self, CommandBuffer& on, const ImageDescriptor& size,
                         const MaybeKernel& by) { return self.image(on, size, of(by)); },
                    "One new object, of one image or several.", {buffer, descriptor, kernel})
          .function("image_batch",
                    [of](ImageAllocator& self, CommandBuffer& on, const ImageDescriptor& size,
                         const MaybeKernel& by,
                         std::int64_t count) { return self.image_batch(on, size, of(by), count); },
                    "So many new images of the descriptor's size.",
                    {buffer, descriptor, kernel, {"count", "The number of images."}});
  return description;
}

}  // namespace traingraph::mps
