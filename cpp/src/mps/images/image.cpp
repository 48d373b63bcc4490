// Image and TemporaryImage: their storage, parts, batch representations and synchronization, and
// the read counts and batch checks of states.
#include <traingraph/mps/image.h>

#include <algorithm>
#include <atomic>
#include <optional>

#include <traingraph/errors.h>
#include <traingraph/mps/state.h>

#include "mps/recording/owner_of.h"
#include "mps/recording/recording.h"

namespace traingraph::mps {
namespace {

void check(const ImageDescriptor& d) {
  if (d.width >= 1 && d.height >= 1 && d.feature_channels >= 1 && d.number_of_images >= 1) return;
  throw InvalidArgument("[MPSImage] expected extents of 1 or more but got " + to_string(d));
}

StoragePtr image_storage(const Device& device, const ImageDescriptor& d) {
  check(d);
  StoragePtr storage = make_storage(device.state(), data_type(d.channel_format),
                                    {d.number_of_images, d.feature_channels, d.height, d.width});
  storage->divisible = true;
  storage->levels = levels_of(d.channel_format);
  return storage;
}

}  // namespace

DataType data_type(ChannelFormat format) {
  switch (format) {
    case ChannelFormat::kFloat16:
      return DataType::kFloat16;
    case ChannelFormat::kFloat32:
    case ChannelFormat::kUnorm8:
    case ChannelFormat::kUnorm16:
      return DataType::kFloat32;
    case ChannelFormat::kFloat64:
      return DataType::kFloat64;
    case ChannelFormat::kNone:
      break;
  }
  throw InvalidArgument(
      "[MPSImage] expected channel format unorm8, unorm16, float16 or float32 but got raw value " +
      std::to_string(static_cast<int>(format)));
}

std::int64_t levels_of(ChannelFormat format) {
  if (format == ChannelFormat::kUnorm8) return 255;
  return format == ChannelFormat::kUnorm16 ? 65535 : 0;
}

std::size_t element_bytes(ChannelFormat format) {
  const std::int64_t levels = levels_of(format);
  if (levels != 0) return levels == 255 ? 1 : 2;
  return traingraph::element_bytes(data_type(format));
}

std::string to_string(const ImageDescriptor& d) {
  std::string text = std::to_string(d.feature_channels) + "x" + std::to_string(d.height) + "x" +
                     std::to_string(d.width);
  if (d.number_of_images != 1) text = std::to_string(d.number_of_images) + " of " + text;
  return text;
}

std::uint64_t ReadCount::next_round() {
  static std::atomic<std::uint64_t> next{1};
  return next++;
}

namespace {

template <class Counted>
void set_count(Counted& object, ReadCount& reads, std::int64_t value) {
  if (!reads.temporary) return;
  if (value < 0 || (reads.count == 0 && value > 0)) {
    throw InvalidArgument("[" + object.description() + "] expected a read count " +
                          (value < 0 ? "of 0 or more" : "that has not run out") + " but got " +
                          std::to_string(value));
  }
  if (reads.together != nullptr) *reads.together += value - reads.count;
  reads.count = value;
}

template <class Batch>
void increment(const Batch& batch, std::int64_t amount) {
  const std::uint64_t round = ReadCount::next_round();
  for (const auto& one : batch) {
    if (one->reads().temporary && one->reads().first_in(round)) {
      one->set_read_count(one->read_count() + amount);
    }
  }
}

}  // namespace

void Image::set_read_count(std::int64_t value) { set_count(*this, reads_, value); }
void State::set_read_count(std::int64_t value) { set_count(*this, reads_, value); }

Image::Image(const Device& device, const ImageDescriptor& descriptor,
             std::shared_ptr<Storage> storage, std::int64_t first, bool is_temporary,
             std::int64_t first_channel)
    : device_(device),
      descriptor_(descriptor),
      storage_(std::move(storage)),
      first_(first),
      first_channel_(first_channel) {
  reads_.temporary = is_temporary;
  reads_.together = &storage_->reads_left;
  reads_.count = is_temporary ? 1 : 0;
  storage_->reads_left += reads_.count;
}

Image::~Image() { storage_->reads_left -= reads_.count; }
TemporaryImage::~TemporaryImage() = default;

ImagePtr Image::create(const Device& device, const ImageDescriptor& descriptor) {
  return std::make_shared<Image>(device, descriptor, image_storage(device, descriptor), 0, false);
}

ImagePtr Image::temporary(CommandBuffer& buffer, const ImageDescriptor& descriptor) {
  if (buffer.recording() == nullptr) {
    throw InvalidArgument(
        "[MPSTemporaryImage] expected a command buffer to encode to but got one that was "
        "committed");
  }
  StoragePtr storage = image_storage(buffer.device(), descriptor);
  storage->owner = buffer.number();
  return std::make_shared<TemporaryImage>(buffer.device(), descriptor, std::move(storage), 0);
}

ImagePtr Image::shared_from_this() {
  if (ImagePtr one = of_batch_.lock()) return one;
  return owner_of<Image>(*this, description());
}

// Rows as images, which are allocated together.
template <class Made, class... Rest>
ImageBatch Image::rows(Rest... rest) const {
  ImageDescriptor one = descriptor_;
  const std::int64_t count = std::exchange(one.number_of_images, 1);
  const auto all =
      std::make_shared<std::vector<std::optional<Made>>>(static_cast<std::size_t>(count));
  ImageBatch batch;
  batch.reserve(all->size());
  for (std::int64_t k = 0; k < count; ++k) {
    Image& made = (*all)[static_cast<std::size_t>(k)].emplace(device_, one, storage_, first_ + k,
                                                              rest..., first_channel_);
    made.label = label;
    batch.emplace_back(all, &made);
    made.of_batch_ = batch.back();
  }
  return batch;
}

ImageBatch Image::batch_representation() const {
  return reads_.temporary ? rows<TemporaryImage>() : rows<Image>(false);
}

bool Image::is_channels() const { return descriptor_.feature_channels != storage_->shape[1]; }

ImagePtr Image::part_of(const ImagePtr& parent, const Neighbours& images,
                        const Neighbours& channels) {
  if (parent == nullptr) throw InvalidArgument("[MPSImage] expected a parent image but got none");
  const auto check = [&](const Neighbours& some, std::int64_t count, const char* what) {
    if (some.first >= 0 && some.count >= 1 && some.count <= count - some.first) return;
    throw InvalidArgument("[" + parent->description() + "] expected 1 or more of its " +
                          std::to_string(count) + " " + what + " but got " +
                          std::to_string(some.count) + " from " + std::to_string(some.first) +
                          " on");
  };
  ImageDescriptor part = parent->descriptor();
  check(images, part.number_of_images, "images");
  check(channels, part.feature_channels, "channels");
  if (channels.first % 4 != 0) {
    throw InvalidArgument("[" + parent->description() +
                          "] expected channels from a multiple of 4 on but got " +
                          std::to_string(channels.first));
  }
  part.number_of_images = images.count;
  part.feature_channels = channels.count;
  const std::int64_t first = parent->first() + images.first;
  const std::int64_t first_channel = parent->first_channel() + channels.first;
  ImagePtr made;
  if (parent->is_temporary()) {
    made = std::make_shared<TemporaryImage>(parent->device(), part, parent->storage(), first,
                                            first_channel);
  } else {
    made = std::make_shared<Image>(parent->device(), part, parent->storage(), first, false,
                                   first_channel);
    made->parent_ = parent;
  }
  made->label = parent->label;
  return made;
}

ImagePtr Image::slices_of(const ImagePtr& parent, const Neighbours& slices, std::int64_t channels) {
  if (parent == nullptr) throw InvalidArgument("[MPSImage] expected a parent image but got none");
  const auto slices_for = [](std::int64_t count) { return (count + 3) / 4; };
  const std::int64_t each = slices_for(parent->descriptor().feature_channels);
  const std::int64_t wanted = slices_for(channels);
  const std::int64_t begin = slices.first % each;
  if (slices.first >= 0 && channels >= 1 && slices.count >= 1) {
    if (slices.count == wanted && begin + wanted <= each) {
      return part_of(parent, {slices.first / each, 1}, {4 * begin, channels});
    }
    if (wanted == each && begin == 0 && slices.count % each == 0) {
      return part_of(parent, {slices.first / each, slices.count / each}, {0, channels});
    }
  }
  throw InvalidArgument("[" + parent->description() +
                        "] expected slices of one image, or of whole "
                        "images with " +
                        std::to_string(each) + " each, for " + std::to_string(channels) +
                        " channels but got " + std::to_string(slices.count) + " from " +
                        std::to_string(slices.first) + " on");
}

std::size_t Image::image_bytes() const {
  return element_bytes(descriptor_.channel_format) *
         static_cast<std::size_t>(descriptor_.feature_channels * descriptor_.height *
                                  descriptor_.width);
}

std::string Image::description() const {
  const std::string name = label.empty() ? "" : "'" + label + "' ";
  return (reads_.temporary ? "temporary image " : "image ") + name + to_string(descriptor_);
}

namespace {

void expect_open(const CommandBuffer& buffer, const Device& device, const std::string& who) {
  if (!(buffer.device() == device)) {
    throw InvalidArgument("[" + who + "] expected a command buffer of device " + device.name() +
                          " but got one of " + buffer.device().name());
  }
  if (buffer.status() == CommandBufferStatus::kNotEnqueued) return;
  throw InvalidArgument("[" + who +
                        "] expected a command buffer to encode to but got one that was committed");
}

template <class Batch>
void synchronize_each(const Batch& batch, CommandBuffer& buffer) {
  for (const auto& one : batch) {
    if (one == nullptr) throw InvalidArgument("[synchronize] expected a batch but got none in it");
    one->synchronize(buffer);
  }
}

}  // namespace

void Image::synchronize(CommandBuffer& buffer) const {
  expect_open(buffer, device_, description());
  if (!is_temporary()) return;
  throw InvalidArgument("[" + description() +
                        "] expected an image that the host can read but got a temporary one");
}

void State::synchronize(CommandBuffer& buffer) const {
  const Buffer* const first = first_buffer();
  expect_open(buffer, first == nullptr ? buffer.device() : first->device(), description());
  if (!is_temporary()) return;
  throw InvalidArgument("[" + description() +
                        "] expected a state that the host can read but got a temporary one");
}

void synchronize(const ImageBatch& batch, CommandBuffer& buffer) {
  synchronize_each(batch, buffer);
}
void synchronize(const StateBatch& batch, CommandBuffer& buffer) {
  synchronize_each(batch, buffer);
}

void increment_read_count(const ImageBatch& batch, std::int64_t amount) {
  increment(batch, amount);
}
void increment_read_count(const StateBatch& batch, std::int64_t amount) {
  increment(batch, amount);
}

State::State(const CommandBuffer* temporary_on) {
  if (temporary_on == nullptr) return;
  reads_.temporary = true;
  reads_.count = 1;
  owner_ = temporary_on->number();
}
State::~State() = default;

void GradientState::encoded_forward(const CommandBuffer& buffer, const ImageDescriptor& written) {
  written_ = written;
  forward_.add(buffer.record());
}

std::string GradientState::other_batch_refused(const CommandBuffer& buffer) const {
  if (gradient_was_encoded()) return "a gradient kernel was encoded with";
  if (!forward_.has_committed_apart_from(buffer.number())) return "";
  return "a buffer that was committed has written";
}

void GradientState::forget_batch() {
  written_.reset();
  forward_.forget();
  gradients_.forget();
}

bool State::renew(const CommandBuffer&, std::int64_t) { return false; }

bool State::renew(const CommandBuffer& on, std::int64_t readings,
                  std::initializer_list<const std::shared_ptr<Buffer>*> buffers) {
  const auto is_shared = [](const std::shared_ptr<Buffer>* b) { return b->use_count() > 1; };
  if (!reads_.temporary || std::ranges::any_of(buffers, is_shared)) return false;
  reads_.count = readings;
  owner_ = on.number();
  for (const std::shared_ptr<Buffer>* buffer : buffers) (*buffer)->storage()->owner = owner_;
  return true;
}

std::string State::description() const {
  return std::string(kind()) + (label.empty() ? "" : " '" + label + "'");
}

}  // namespace traingraph::mps
