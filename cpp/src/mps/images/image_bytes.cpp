// Copies pixels between an image and host memory, by region, strides and data layout, and converts
// normalized formats.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include <traingraph/errors.h>
#include <traingraph/mps/image.h>

#include "ir/extents.h"
#include "mps/recording/storage.h"

namespace traingraph::mps {
namespace {

// A layout with its sizes filled in, checked against an image and the caller's bytes.
struct Placed {
  std::int64_t width, height, channels;
  std::int64_t per_channel, per_column, per_row, per_image;  // bytes from one to the next
  bool is_dense;
};

[[noreturn]] void refuse(const Image& image, const std::string& text) {
  throw InvalidArgument("[" + image.description() + "] expected " + text);
}

void check_range(const Image& image, const char* what, std::int64_t first, std::int64_t count,
                 std::int64_t all) {
  if (first >= 0 && count >= 1 && count <= all - first) return;
  const std::string from = std::to_string(first);
  refuse(image, std::string(what) + " below " + std::to_string(all) + " but got " +
                    (count == 1 ? from : std::to_string(count) + " from " + from + " on"));
}

// The stride that was given, or the smallest.
std::int64_t stride(const Image& image, const char* what, std::int64_t given,
                    std::int64_t smallest) {
  if (given == 0) return smallest;
  if (given >= smallest) return given;
  refuse(image, std::to_string(smallest) + " bytes per " + what + " or more but got " +
                    std::to_string(given));
}

Placed place(const Image& image, const PixelLayout& l, std::int64_t index, std::size_t length) {
  const ImageDescriptor& d = image.descriptor();
  Placed p;
  p.width = std::min(l.width, d.width - l.x);
  p.height = std::min(l.height, d.height - l.y);
  p.channels = std::min(l.channels, d.feature_channels - l.first_channel);
  check_range(image, "columns", l.x, l.width == INT64_MAX ? p.width : l.width, d.width);
  check_range(image, "rows", l.y, l.height == INT64_MAX ? p.height : l.height, d.height);
  check_range(image, "channels", l.first_channel, l.channels == INT64_MAX ? p.channels : l.channels,
              d.feature_channels);
  check_range(image, "an image index", index, l.images, d.number_of_images);
  const auto element = static_cast<std::int64_t>(element_bytes(image.descriptor().channel_format));
  const bool planes = l.layout == DataLayout::kChannelsHeightWidth;
  p.per_column = stride(image, "column", l.bytes_per_column,
                        planes ? element : ir::product(element, p.channels));
  p.per_row = stride(image, "row", l.bytes_per_row, ir::product(p.per_column, p.width));
  const std::int64_t plane = ir::product(p.per_row, p.height);
  p.per_channel = planes ? plane : element;
  p.per_image =
      stride(image, "image", l.bytes_per_image, planes ? ir::product(plane, p.channels) : plane);
  p.is_dense = l.bytes_per_column == 0 && l.bytes_per_row == 0 && l.bytes_per_image == 0;
  std::int64_t last = element;
  for (const auto& [count, distance] :
       {std::pair(l.images, p.per_image), std::pair(p.channels, p.per_channel),
        std::pair(p.height, p.per_row), std::pair(p.width, p.per_column)}) {
    last = ir::sum(last, ir::product(count - 1, distance));
  }
  const auto given = static_cast<std::int64_t>(length);
  if (p.is_dense ? given != last : given < last) {
    refuse(image, std::to_string(last) + " bytes" + (p.is_dense ? "" : " or more") + " but got " +
                      std::to_string(length));
  }
  return p;
}

// Calls copy(place in the planes, place in the caller's bytes, bytes) for the pixels of one image.
template <class Copy>
void for_pixels(const ImageDescriptor& d, const PixelLayout& l, const Placed& p,
                std::int64_t element, const Copy& copy) {
  const bool rows = p.per_column == element;  // a row is one piece
  for (std::int64_t c = 0; c < p.channels; ++c) {
    for (std::int64_t y = 0; y < p.height; ++y) {
      const std::int64_t inside = ((c * d.height + l.y + y) * d.width + l.x) * element;
      const std::int64_t outside = c * p.per_channel + y * p.per_row;
      if (rows) {
        copy(inside, outside, p.width * element);
        continue;
      }
      for (std::int64_t x = 0; x < p.width; ++x) {
        copy(inside + x * element, outside + x * p.per_column, element);
      }
    }
  }
}

// Whole numbers of one type for values that a storage has as float32, and back.
template <class Whole>
void to_whole(const std::vector<float>& values, std::int64_t levels, std::byte* to) {
  for (std::size_t k = 0; k < values.size(); ++k) {
    const float value = std::isnan(values[k]) ? 0 : values[k];
    const auto whole = static_cast<Whole>(std::lround(value * static_cast<float>(levels)));
    std::memcpy(to + k * sizeof whole, &whole, sizeof whole);
  }
}
template <class Whole>
void from_whole(const std::byte* from, std::int64_t levels, std::vector<float>& values) {
  for (std::size_t k = 0; k < values.size(); ++k) {
    Whole whole;
    std::memcpy(&whole, from + k * sizeof whole, sizeof whole);
    values[k] = static_cast<float>(whole) / static_cast<float>(levels);
  }
}

// Elements of an image in the format's own type, from one of the storage's elements on.
void read_elements(const Image& image, std::size_t first, std::byte* to, std::size_t bytes) {
  const std::size_t each = element_bytes(image.descriptor().channel_format);
  const std::int64_t levels = image.storage()->levels;
  if (levels == 0) return read_storage(*image.storage(), first * each, to, bytes);
  std::vector<float> values(bytes / each);
  read_storage(*image.storage(), first * sizeof(float), values.data(),
               values.size() * sizeof(float));
  each == 1 ? to_whole<std::uint8_t>(values, levels, to)
            : to_whole<std::uint16_t>(values, levels, to);
}
void write_elements(const Image& image, std::size_t first, const std::byte* from,
                    std::size_t bytes) {
  const std::size_t each = element_bytes(image.descriptor().channel_format);
  const std::int64_t levels = image.storage()->levels;
  if (levels == 0) return write_storage(*image.storage(), first * each, from, bytes);
  std::vector<float> values(bytes / each);
  each == 1 ? from_whole<std::uint8_t>(from, levels, values)
            : from_whole<std::uint16_t>(from, levels, values);
  write_storage(*image.storage(), first * sizeof(float), values.data(),
                values.size() * sizeof(float));
}

// Calls work(planes, first element in the storage, offset in the caller's bytes) for each image:
// its channels lie beside each other.
template <class Work>
void for_images(const Image& image, const PixelLayout& l, const Placed& p, std::int64_t index,
                const Work& work) {
  const ImageDescriptor& d = image.descriptor();
  const auto plane = static_cast<std::size_t>(d.height * d.width);
  const std::size_t row = plane * static_cast<std::size_t>(image.storage()->shape[1]);
  std::vector<std::byte> planes(plane * static_cast<std::size_t>(p.channels) *
                                element_bytes(d.channel_format));
  for (std::int64_t k = 0; k < l.images; ++k) {
    work(planes,
         row * static_cast<std::size_t>(image.first() + index + k) +
             plane * static_cast<std::size_t>(image.first_channel() + l.first_channel),
         k * p.per_image);
  }
}

// Whether the caller's bytes of an image are the image's own.
bool is_plain(const ImageDescriptor& d, const PixelLayout& l, const Placed& p) {
  return p.is_dense && p.width == d.width && p.height == d.height &&
         (l.layout == DataLayout::kChannelsHeightWidth || p.channels == 1);
}

}  // namespace

void Image::read_bytes(void* bytes, std::size_t length, const PixelLayout& layout,
                       std::int64_t index) const {
  const Placed p = place(*this, layout, index, length);
  auto* const to = static_cast<std::byte*>(bytes);
  const auto element = static_cast<std::int64_t>(element_bytes(descriptor_.channel_format));
  for_images(*this, layout, p, index,
             [&](std::vector<std::byte>& planes, std::size_t at, std::int64_t outside) {
               if (is_plain(descriptor_, layout, p)) {
                 read_elements(*this, at, to + outside, planes.size());
                 return;
               }
               read_elements(*this, at, planes.data(), planes.size());
               for_pixels(descriptor_, layout, p, element,
                          [&](std::int64_t own, std::int64_t place, std::int64_t count) {
                            std::memcpy(to + outside + place, planes.data() + own,
                                        static_cast<std::size_t>(count));
                          });
             });
}

void Image::write_bytes(const void* bytes, std::size_t length, const PixelLayout& layout,
                        std::int64_t index) {
  const Placed p = place(*this, layout, index, length);
  const auto* const from = static_cast<const std::byte*>(bytes);
  const auto element = static_cast<std::int64_t>(element_bytes(descriptor_.channel_format));
  const bool covers = p.width == descriptor_.width && p.height == descriptor_.height;
  for_images(*this, layout, p, index,
             [&](std::vector<std::byte>& planes, std::size_t at, std::int64_t outside) {
               if (is_plain(descriptor_, layout, p)) {
                 write_elements(*this, at, from + outside, planes.size());
                 return;
               }
               if (!covers) read_elements(*this, at, planes.data(), planes.size());
               for_pixels(descriptor_, layout, p, element,
                          [&](std::int64_t own, std::int64_t place, std::int64_t count) {
                            std::memcpy(planes.data() + own, from + outside + place,
                                        static_cast<std::size_t>(count));
                          });
               write_elements(*this, at, planes.data(), planes.size());
             });
}

}  // namespace traingraph::mps
