// State and GradientState, through which forward kernels pass results to gradient kernels, and the
// value types of kernels: offsets, regions, channel ranges, edge modes and windows.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <traingraph/mps/image.h>
#include <traingraph/ownership.h>

namespace traingraph::mps {

// What one kernel hands to another beside images.
class TRAINGRAPH_API State {
 public:
  virtual ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  virtual const char* kind() const { return "MPSState"; }
  virtual void visit_owned(OwnershipVisitor&) const {}
  std::string label;
  bool is_temporary() const { return reads_.temporary; }
  std::int64_t read_count() const { return reads_.count; }
  // Raises InvalidArgument for a number below 0 and when it would bring back what has run out.
  void set_read_count(std::int64_t value);
  ReadCount& reads() { return reads_; }
  std::string description() const;
  // As Image::synchronize().
  void synchronize(CommandBuffer& buffer) const;
  // The command buffer a temporary state lives on, by number; 0 for a permanent one.
  std::uint64_t owner() const { return owner_; }
  // One of its buffers, which are all of one device; null: it has none.
  virtual const Buffer* first_buffer() const { return nullptr; }
  // For a graph that has encoded the same again: a temporary state, which was used up, is that of
  // another buffer and has so many readings. False, and unchanged, if one of its buffers has or may
  // have another owner.
  virtual bool renew(const CommandBuffer& on, std::int64_t readings);

 protected:
  explicit State(const CommandBuffer* temporary_on);
  // The same of a state that consists of these.
  bool renew(const CommandBuffer& on, std::int64_t readings,
             std::initializer_list<const std::shared_ptr<Buffer>*> buffers);

 private:
  ReadCount reads_;
  std::uint64_t owner_ = 0;
};

using StatePtr = std::shared_ptr<State>;
// One per image, or one object for all.
using StateBatch = std::vector<StatePtr>;
TRAINGRAPH_API void increment_read_count(const StateBatch& batch, std::int64_t amount);
TRAINGRAPH_API void synchronize(const StateBatch& batch, CommandBuffer& buffer);

struct Offset {
  std::int64_t x = 0;
  std::int64_t y = 0;
  std::int64_t z = 0;
  bool operator==(const Offset&) const = default;
  bool is_zero() const { return *this == Offset{}; }
};

// A number for each axis of one image.
struct TRAINGRAPH_API Coordinate {
  std::int64_t x = 0;
  std::int64_t y = 0;
  std::int64_t channel = 0;
  bool operator==(const Coordinate&) const = default;
};

// Pixels of a destination, from `origin` to its end unless there is a size.
struct TRAINGRAPH_API Region {
  Offset origin;
  std::int64_t width = INT64_MAX;
  std::int64_t height = INT64_MAX;
  std::int64_t depth = INT64_MAX;  // images
  bool operator==(const Region&) const = default;
  bool whole() const { return *this == Region{}; }
};

// How much of an image: all of it unless there is less.
struct TRAINGRAPH_API Extent {
  std::int64_t width = INT64_MAX;
  std::int64_t height = INT64_MAX;
  std::int64_t depth = INT64_MAX;  // images
};

// Channels of an image, from `offset` to its end unless there are fewer.
struct TRAINGRAPH_API ChannelRange {
  std::int64_t offset = 0;
  std::int64_t max_count = INT64_MAX;
  bool operator==(const ChannelRange&) const = default;
  bool whole() const { return *this == ChannelRange{}; }
};

// What a forward kernel has read and written, if not all of its images.
struct TRAINGRAPH_API ImageParts {
  ChannelRange source;
  std::int64_t clip_width = 0;  // of what was written; 0: all pixels
  std::int64_t clip_height = 0;
  // Where it was written: the first pixel (x, y) and channel of an image of this size.
  Offset origin;
  std::int64_t channel = 0;
  std::optional<ImageDescriptor> destination;  // none: all of the images
  // Which images of a source object were read; none: all. Their results begin with image origin.z.
  Neighbours images;
};

// Padding alone has the last three.
enum class EdgeMode : int {
  kZero = 0,
  kClamp = 1,
  kMirror = 2,
  kMirrorWithEdge = 3,
  kConstant = 4
};

// The window of a forward kernel as it was when the state was made.
struct TRAINGRAPH_API KernelWindow {
  std::int64_t kernel_width = 1;
  std::int64_t kernel_height = 1;
  std::int64_t stride_x = 1;
  std::int64_t stride_y = 1;
  std::int64_t dilation_x = 1;
  std::int64_t dilation_y = 1;
  Offset offset;
  EdgeMode edge_mode = EdgeMode::kZero;
  // Zeros on either side of the image that an average with kClamp counts as well.
  std::int64_t zero_pad_x = 0;
  std::int64_t zero_pad_y = 0;
  bool operator==(const KernelWindow&) const = default;
};

// What a gradient kernel needs to know of the forward one: its window and its source's size.
class TRAINGRAPH_API GradientState : public State {
 public:
  GradientState(KernelWindow window, ImageDescriptor source, const CommandBuffer* temporary_on)
      : State(temporary_on), window_(window), source_(source) {}
  const char* kind() const override { return "MPSNNGradientState"; }
  const KernelWindow& window() const { return window_; }
  // `number_of_images` counts those the state was made for.
  const ImageDescriptor& source() const { return source_; }
  void update(const KernelWindow& window) { window_ = window; }
  const ImageParts& parts() const { return parts_; }
  void set_parts(const ImageParts& parts) { parts_ = parts; }
  // The rows, columns and channels that the forward kernel has written; none before its encoding.
  const std::optional<ImageDescriptor>& written() const { return written_; }

  // It belongs to one batch. For kernels that have encoded it as destination or as source.
  void encoded_forward(const CommandBuffer& buffer, const ImageDescriptor& written);
  void encoded_gradient(const CommandBuffer& buffer) { gradients_.add(buffer.record()); }
  // Why a forward kernel cannot be encoded to this buffer with it; nothing if it can.
  virtual std::string other_batch_refused(const CommandBuffer& buffer) const;

 protected:
  // Another batch may come.
  void forget_batch();
  // To a buffer that was committed, or may still be.
  bool gradient_was_encoded() const {
    return gradients_.has(BufferFate::kCommitted) || gradients_.has(BufferFate::kOpen);
  }

 private:
  KernelWindow window_;
  ImageParts parts_;
  ImageDescriptor source_;
  std::optional<ImageDescriptor> written_;
  EncodedOn forward_, gradients_;  // kernels with it as destination, and as source
};

}  // namespace traingraph::mps
