// CNNLossDataDescriptor: copies labels or weights from host memory, checks their strides, and makes
// an image of them.
#include <cstring>

#include <traingraph/errors.h>
#include <traingraph/mps/loss.h>

namespace traingraph::mps {
namespace {

constexpr std::int64_t kElement = sizeof(float);

[[noreturn]] void refuse(const std::string& text) {
  throw ShapeError("[MPSCNNLossDataDescriptor] expected " + text);
}

std::shared_ptr<const std::vector<std::byte>> copy_of(const void* data, std::size_t length) {
  const auto copy = std::make_shared<std::vector<std::byte>>(length);
  if (length != 0) std::memcpy(copy->data(), data, length);
  return copy;
}

}  // namespace

CNNLossDataDescriptor::CNNLossDataDescriptor(const void* data, std::size_t length,
                                             DataLayout layout, const ImageDescriptor& size)
    : bytes_per_row(0),
      bytes_per_image(0),
      data_(copy_of(data, length)),
      layout_(layout),
      size_(size) {
  size_.channel_format = ChannelFormat::kFloat32;
  size_.number_of_images = 1;
  if (size.width < 1 || size.height < 1 || size.feature_channels < 1) {
    refuse("a size of 1 or more in each direction but got " + to_string(size_));
  }
  const std::int64_t count = static_cast<std::int64_t>(length) / kElement;
  if (size.width > count || size.height > count / size.width ||
      size.feature_channels > count / (size.width * size.height)) {
    refuse("float32 of " + to_string(size_) + " but got " + std::to_string(length) + " bytes");
  }
  const std::int64_t pixel = layout == DataLayout::kChannelsHeightWidth ? 1 : size.feature_channels;
  bytes_per_row = size.width * pixel * kElement;
  bytes_per_image = size.height * bytes_per_row;
}

ImagePtr CNNLossDataDescriptor::image(const Device& device) const {
  const bool planes = layout_ == DataLayout::kChannelsHeightWidth;
  const std::int64_t slices = planes ? size_.feature_channels : 1;
  const std::int64_t row = size_.width * (planes ? 1 : size_.feature_channels) * kElement;
  const auto given = static_cast<std::int64_t>(data_->size());
  // Where the last of so many begins; beyond the data when that is too far to count.
  const auto last = [&](std::int64_t count, std::int64_t stride) {
    return count > 1 && stride > given / (count - 1) ? given : (count - 1) * stride;
  };
  if (bytes_per_row < row) {
    refuse(std::to_string(row) + " bytes per row or more but got " + std::to_string(bytes_per_row));
  }
  const std::int64_t slice = last(size_.height, bytes_per_row) + row;
  if (bytes_per_image < slice) {
    refuse(std::to_string(slice) + " bytes per slice or more, for all its rows, but got " +
           std::to_string(bytes_per_image));
  }
  if (last(slices, bytes_per_image) + slice > given) {
    refuse("data for " + std::to_string(bytes_per_row) + " bytes per row and " +
           std::to_string(bytes_per_image) + " per slice of " + to_string(size_) + " but got " +
           std::to_string(given) + " bytes");
  }
  ImagePtr image = Image::create(device, size_);
  PixelLayout pixels{layout_};
  pixels.channels = planes ? 1 : size_.feature_channels;
  pixels.bytes_per_row = bytes_per_row;
  for (std::int64_t k = 0; k < slices; ++k) {
    pixels.first_channel = k;
    const auto begin = static_cast<std::size_t>(k * bytes_per_image);
    image->write_bytes(data_->data() + begin, data_->size() - begin, pixels, 0);
  }
  return image;
}

}  // namespace traingraph::mps
