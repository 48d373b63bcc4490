// Image and TemporaryImage, NCHW pixels on a device, with their descriptor, allocators, read counts
// and copies to and from host memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <traingraph/mps/command_buffer.h>

namespace traingraph::mps {

// Apple's raw values; kFloat64 is an addition of this library, for the reference implementation.
// Elements of the first two are whole numbers of 8 and 16 bits for those from 0 to 1.
enum class ChannelFormat : int {
  kNone = 0,
  kUnorm8 = 1,
  kUnorm16 = 2,
  kFloat16 = 3,
  kFloat32 = 4,
  kFloat64 = 101
};
// What kernels read and write. Raises InvalidArgument for formats without storage here.
TRAINGRAPH_API DataType data_type(ChannelFormat format);
// The largest whole number of a normalized format, which stands for 1; 0 for other formats.
TRAINGRAPH_API std::int64_t levels_of(ChannelFormat format);
// Of an element in the caller's memory.
TRAINGRAPH_API std::size_t element_bytes(ChannelFormat format);

enum class DataLayout : int { kHeightWidthChannels = 0, kChannelsHeightWidth = 1 };

struct TRAINGRAPH_API ImageDescriptor {
  ChannelFormat channel_format = ChannelFormat::kFloat32;
  std::int64_t width = 1;
  std::int64_t height = 1;
  std::int64_t feature_channels = 1;
  std::int64_t number_of_images = 1;

  bool operator==(const ImageDescriptor&) const = default;
  static const ClassDescription& class_description();
};
// Of one image; the depth counts channels.
struct TRAINGRAPH_API Size {
  std::int64_t width = 1;
  std::int64_t height = 1;
  std::int64_t depth = 1;
};
using traingraph::to_string;
TRAINGRAPH_API std::string to_string(const ImageDescriptor& descriptor);

// How often what lives on one command buffer may still be read. Permanent objects count nothing.
struct TRAINGRAPH_API ReadCount {
  bool temporary = false;
  std::int64_t count = 0;
  // All readings left of images that share its memory; may be null. Any thread may drop images.
  std::atomic<std::int64_t>* together = nullptr;

  // One reading; false when none is left.
  bool read() {
    if (!temporary) return true;
    if (count == 0) return false;
    --count;
    if (together != nullptr) --*together;
    return true;
  }
  // Whether it is the first of its object in a round; each round has another number.
  bool first_in(std::uint64_t now) { return std::exchange(round, now) != now; }
  static std::uint64_t next_round();

  std::uint64_t round = 0;
};

// Neighbours in a row of images or channels.
struct Neighbours {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// A rectangle of images from an index on, some of their channels, and how these lie in the caller's
// bytes: between columns, rows (of a plane, where channels come first) and images as many bytes as
// it says; 0: nothing is between.
struct TRAINGRAPH_API PixelLayout {
  DataLayout layout = DataLayout::kChannelsHeightWidth;
  std::int64_t x = 0;
  std::int64_t y = 0;
  std::int64_t width = INT64_MAX;  // at most to the image's end
  std::int64_t height = INT64_MAX;
  std::int64_t images = 1;
  std::int64_t first_channel = 0;
  std::int64_t channels = INT64_MAX;
  std::int64_t bytes_per_column = 0;
  std::int64_t bytes_per_row = 0;
  std::int64_t bytes_per_image = 0;
};

class Image;
class Kernel;
using ImagePtr = std::shared_ptr<Image>;
// Images of one size. Those of one object's batch_representation() are read without a copy.
using ImageBatch = std::vector<ImagePtr>;

// Makes the images that kernels and graphs return.
class TRAINGRAPH_API ImageAllocator {
 public:
  virtual ~ImageAllocator();
  // One object, of one image or several. There may be no kernel.
  virtual ImagePtr image(CommandBuffer& buffer, const ImageDescriptor& descriptor,
                         const Kernel* kernel) = 0;
  // So many images, each of the descriptor's size.
  virtual ImageBatch image_batch(CommandBuffer& buffer, const ImageDescriptor& descriptor,
                                 const Kernel* kernel, std::int64_t count) = 0;
  // Objects that a user-defined allocator keeps alive.
  virtual void visit_owned(OwnershipVisitor&) const {}
  static const ClassDescription& class_description();
};
using ImageAllocatorPtr = std::shared_ptr<ImageAllocator>;

// Pixels (number_of_images, feature_channels, height, width) on a device, or images or channels of
// another one, whose memory it shares. A temporary one lives on its command buffer alone and has no
// memory of its own.
class TRAINGRAPH_API Image : public std::enable_shared_from_this<Image> {
 public:
  static ImagePtr create(const Device& device, const ImageDescriptor& descriptor);
  static ImagePtr temporary(CommandBuffer& buffer, const ImageDescriptor& descriptor);
  // Makes permanent images.
  static const ImageAllocatorPtr& default_allocator();
  // These images, and of each these channels, from a multiple of 4 on. One of a temporary image has
  // a read count of its own that starts with 1, and no parent. Raises InvalidArgument for what is
  // not there.
  static ImagePtr part_of(const ImagePtr& parent, const Neighbours& images,
                          const Neighbours& channels);
  // The same by slices, of which an image has one for every four channels: channels of one image,
  // or whole images without the last channels.
  static ImagePtr slices_of(const ImagePtr& parent, const Neighbours& slices,
                            std::int64_t channels);
  Image(const Device& device, const ImageDescriptor& descriptor, std::shared_ptr<Storage> storage,
        std::int64_t first, bool is_temporary, std::int64_t first_channel = 0);
  virtual ~Image();
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  const Device& device() const { return device_; }
  const ImageDescriptor& descriptor() const { return descriptor_; }
  std::string label;

  // The pointer that owns it, also where that owns the whole batch representation. Raises
  // InvalidArgument where there is none.
  ImagePtr shared_from_this();
  // One image per row, sharing memory and, of a temporary one, starting with a read count of 1.
  ImageBatch batch_representation() const;
  // What it is a part of; null for an image of its own, and where batch_representation() made it.
  const ImagePtr& parent() const { return parent_; }
  // In the format's own type, whole numbers of a normalized one, from image `index` on. Both wait
  // for the work that was committed before; raise InvalidArgument for a temporary image, pixels
  // that are not there, another length than the layout's where nothing is between, else a length
  // too short for it.
  void read_bytes(void* bytes, std::size_t length, const PixelLayout& layout,
                  std::int64_t index) const;
  void write_bytes(const void* bytes, std::size_t length, const PixelLayout& layout,
                   std::int64_t index);
  void read_bytes(void* bytes, std::size_t length, DataLayout layout, std::int64_t index) const {
    read_bytes(bytes, length, PixelLayout{layout}, index);
  }
  void write_bytes(const void* bytes, std::size_t length, DataLayout layout, std::int64_t index) {
    write_bytes(bytes, length, PixelLayout{layout}, index);
  }
  std::size_t image_bytes() const;  // of one image, in the caller's memory
  // Before the host reads it behind this buffer's run: reads wait for the device here in any case.
  // Raises InvalidArgument for a temporary image, and a buffer of another device or after commit.
  void synchronize(CommandBuffer& buffer) const;

  bool is_temporary() const { return reads_.temporary; }
  std::int64_t read_count() const { return reads_.count; }
  // Raises InvalidArgument for a number below 0 and when it would bring back what has run out.
  void set_read_count(std::int64_t value);
  ReadCount& reads() { return reads_; }
  std::string description() const;  // "image 'label' 3x28x28"

  const std::shared_ptr<Storage>& storage() const { return storage_; }
  std::int64_t first() const { return first_; }
  std::int64_t first_channel() const { return first_channel_; }
  // Whether others of its storage's channels are not its own.
  bool is_channels() const;
  static const ClassDescription& class_description();

 private:
  template <class Made, class... Rest>
  ImageBatch rows(Rest... rest) const;

  Device device_;
  ImageDescriptor descriptor_;
  std::shared_ptr<Storage> storage_;
  std::int64_t first_;  // row of the storage
  std::int64_t first_channel_;
  ImagePtr parent_;
  std::weak_ptr<Image> of_batch_;  // itself, where its batch representation is owned as a whole
  ReadCount reads_;
};

class TRAINGRAPH_API TemporaryImage final : public Image {
 public:
  TemporaryImage(const Device& device, const ImageDescriptor& descriptor,
                 std::shared_ptr<Storage> storage, std::int64_t first,
                 std::int64_t first_channel = 0)
      : Image(device, descriptor, std::move(storage), first, true, first_channel) {}
  ~TemporaryImage() override;
  static const ClassDescription& class_description();
  // Makes temporary images.
  static const ImageAllocatorPtr& default_allocator();
};

// Where images come from: at the beginning temporary ones.
class TRAINGRAPH_API AllocatesImages {
 public:
  const ImageAllocatorPtr& image_allocator() const { return allocator_; }
  // Raises InvalidArgument for none.
  void set_image_allocator(ImageAllocatorPtr value);
  // Whether it is the default allocator of temporary images; false for a user-defined one.
  bool makes_temporary_images() const { return allocator_ == TemporaryImage::default_allocator(); }
  void set_makes_temporary_images(bool value);
  // Whether it is user-defined.
  bool has_own_allocator() const {
    return !makes_temporary_images() && allocator_ != Image::default_allocator();
  }

 private:
  ImageAllocatorPtr allocator_ = TemporaryImage::default_allocator();
};

// Adds to the read count of every different image of a batch.
TRAINGRAPH_API void increment_read_count(const ImageBatch& batch, std::int64_t amount);
// Each different image, as Image::synchronize().
TRAINGRAPH_API void synchronize(const ImageBatch& batch, CommandBuffer& buffer);

}  // namespace traingraph::mps
