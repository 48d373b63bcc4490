// Base classes of kernels: Kernel, ClippedKernel, TwoSourceKernel, CNNKernel (one source) and
// CNNGradientKernel, and the padding policies that size their results.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <traingraph/mps/state.h>

namespace traingraph::mps {

class Coder;
class NNPadding;
class Operation;
class PaddingPolicy;
struct ImagePart;
struct GradientParts;
using OperationPtr = std::shared_ptr<const Operation>;

// Something that writes itself into a command buffer. Properties may change at any time; what was
// encoded before keeps those it was encoded with.
class TRAINGRAPH_API Kernel : public std::enable_shared_from_this<Kernel> {
 public:
  virtual ~Kernel();
  Kernel& operator=(const Kernel&) = delete;
  virtual const char* kind() const = 0;
  const Device& device() const { return device_; }
  std::string label;
  // "MPSCNNConvolution 'conv1'"
  std::string description() const;

  // Writes every property, each under its name; of a data source its present arrays. See
  // <traingraph/mps/coding.h>. This and copy() raise Unsupported for graphs and for a user-defined
  // kind().
  void encode_with_coder(Coder& coder) const;
  // An independent kernel with the same properties. A data source is copied by its own copy(), or
  // shared; weights that a state was loaded from are not kept, nor are counts of encodings.
  std::shared_ptr<Kernel> copy() const { return copy(device_); }
  std::shared_ptr<Kernel> copy(const Device& device) const;
  // Data sources, and what keeps one.
  virtual void visit_owned(OwnershipVisitor&) const {}

 protected:
  explicit Kernel(const Device& device) : device_(device) {}
  Kernel(const Kernel&) = default;

  // What is encoded, with the properties as they are; made anew when one has changed.
  const OperationPtr& operation();
  virtual OperationPtr make_operation() const = 0;
  void changed() { operation_ = nullptr; }
  template <class T>
  void set(T& member, const T& value) {
    if (member == value) return;
    member = value;
    changed();
  }

  [[noreturn]] void refuse(const std::string& text) const;        // InvalidArgument
  [[noreturn]] void refuse_shape(const std::string& text) const;  // ShapeError
  [[noreturn]] void refuse_use(const std::string& text) const;    // Unsupported
  Recording& recording(CommandBuffer& buffer) const;
  // Raises unless there are images, all of one size and of this device.
  void check_batch(const ImageBatch& batch, const char* what) const;
  void check_state(const State& state, const CommandBuffer& buffer) const;
  // The same for a forward kernel's destination. Raises InvalidArgument for that of another batch.
  void check_destination_state(const State& state, const CommandBuffer& buffer) const;
  // Raises InvalidArgument unless it lies on the kernel's device.
  void check_device(const std::shared_ptr<Storage>& storage, const char* what) const;
  // Counts one reading of every different object.
  void read(const ImageBatch& batch) const;
  void read(const StateBatch& batch) const;
  void read(State& state) const;
  // All that the descriptor counts, in the form of a batch: one image of several where that is one.
  // Raises InvalidArgument or ShapeError for unfit images of a user-defined allocator.
  ImageBatch make_images(CommandBuffer& buffer, const ImageDescriptor& descriptor,
                         const AllocatesImages& by, const ImageBatch& like) const;

  // Raises unless the offset is a multiple of 4.
  void check_channel_offset(std::int64_t offset) const;
  // Of each image of a batch so many images. Raises ShapeError where they are not there.
  ImageBatch some_of(const ImageBatch& batch, const Neighbours& images, const char* what) const;
  // Raises unless there is such a data source, of as many channels.
  template <class Source>
  void check_channels(const std::shared_ptr<Source>& source, std::int64_t channels) const {
    if (source == nullptr) refuse("expected a data source but got none");
    const std::int64_t got = source->number_of_feature_channels();
    if (got == channels) return;
    refuse_shape("expected a data source of " + std::to_string(channels) + " channels but got " +
                 std::to_string(got));
  }
  // Sets which channels of a source are read, if that may be.
  void set_channels(ChannelRange& member, const ChannelRange& value) const;
  // The image as it is when only these channels are there. Raises ShapeError where none is.
  ImageDescriptor seen(const ImageDescriptor& image, const ChannelRange& channels) const;
  // Raises unless `what` may be set to it. It is that of the first images, or may be of others.
  void check_region(const Region& region, const char* what, bool of_any_images = false) const;
  // The image as it is when only these pixels are there. Raises ShapeError where none is, and
  // Unsupported where images are left out.
  ImageDescriptor seen(const ImageDescriptor& image, const Region& region) const;

 private:
  Device device_;
  OperationPtr operation_;
};

// Writes an image, or a part of it.
class TRAINGRAPH_API ClippedKernel : public Kernel {
 public:
  // What of the destination is written, as far as it is there; the rest stays as it is. A source's
  // offset is that of the rectangle's first pixel; its z, and the rectangle's, is an image of an
  // object with several, and the depth says how many. The forms that return images set both anew.
  const Region& clip_rect() const { return clip_; }
  void set_clip_rect(const Region& value);
  // Offsets of channels are multiples of 4.
  std::int64_t destination_feature_channel_offset() const { return destination_channel_; }
  void set_destination_feature_channel_offset(std::int64_t value);
  // Whether an encoding writes into a state that an earlier kernel has made or used.
  virtual bool is_state_modified() const { return false; }

 protected:
  explicit ClippedKernel(const Device& device) : Kernel(device) {}
  virtual bool is_partial() const { return !clip_.whole() || destination_channel_ != 0; }
  // Raises Unsupported where only whole images can be.
  void refuse_parts() const;
  void write_everything();
  // What a user-defined policy says for this suggestion: `ask` calls it. Of a kernel that moves no
  // window the clip rectangle becomes what is made. Raises InvalidArgument without an object.
  ImageDescriptor by_policy(const PaddingPolicy& policy, const ImageDescriptor& suggested,
                            bool has_window, const std::function<ImageDescriptor(NNPadding&)>& ask);
  // Raises Unsupported for one, where it has no say.
  void refuse_own(const PaddingPolicy& policy, const char* why) const;
  // Which images of each object are written. Raises ShapeError where the rectangle has none.
  Neighbours written_images(const ImageBatch& destinations) const;
  // Where a result goes. One of a moving window fills the clip rectangle, any other is cut out of
  // `result` at `place`. Raises ShapeError when it reaches beyond its destination or the result.
  ImagePart destination_part(const ImageDescriptor& destination, const ImageDescriptor& result,
                             bool has_window, const Offset& place) const;

  Region clip_;
  std::int64_t destination_channel_ = 0;
};

// Reads two images, or channels of them.
class TRAINGRAPH_API TwoSourceKernel : public ClippedKernel {
 public:
  const ChannelRange& primary_channels() const { return primary_channels_; }
  void set_primary_channels(const ChannelRange& value) { set_channels(primary_channels_, value); }
  const ChannelRange& secondary_channels() const { return secondary_channels_; }
  void set_secondary_channels(const ChannelRange& value) {
    set_channels(secondary_channels_, value);
  }

 protected:
  using ClippedKernel::ClippedKernel;
  bool is_partial() const override {
    return ClippedKernel::is_partial() || !primary_channels_.whole() ||
           !secondary_channels_.whole();
  }
  // Raises ShapeError unless the part that is read lies within the image.
  void check_inside(const ImagePart& part, const ImageDescriptor& image, const char* what) const;

  ChannelRange primary_channels_, secondary_channels_;
};

// Apple's raw values of MPSNNPaddingMethod, joined by |.
struct PaddingMethod {
  static constexpr int kAlignMask = 3;
  static constexpr int kRemainderToRight = 4;
  static constexpr int kRemainderToBottom = 8;
  static constexpr int kSizeValidOnly = 0;
  static constexpr int kSizeSame = 16;
  static constexpr int kSizeFull = 32;
  static constexpr int kSizeMask = 48;
  static constexpr int kCustom = 16384;        // the policy is an object, which is asked
  static constexpr int kExcludeEdges = 32768;  // of averages; other kernels take no notice
};
class CNNKernel;
class CNNBinaryKernel;

// A user-defined padding policy.
class TRAINGRAPH_API NNPadding {
 public:
  virtual ~NNPadding();
  // With kCustom it is asked for every result that is sized by the policy, else never.
  virtual int padding_method() const = 0;
  // The result for these sources; `suggested` is what the other bits say. Sets the kernel's offset,
  // and its edge mode, where they are to be others than those bits say. Raises Unsupported.
  virtual ImageDescriptor destination_image_descriptor(const ImageBatch& sources,
                                                       const StateBatch& states, CNNKernel& kernel,
                                                       const ImageDescriptor& suggested);
  // The same for a primary and a secondary source; sets the kernel's two offsets.
  virtual ImageDescriptor destination_image_descriptor(const ImageBatch& sources,
                                                       const StateBatch& states,
                                                       CNNBinaryKernel& kernel,
                                                       const ImageDescriptor& suggested);
  // Objects that it keeps alive.
  virtual void visit_owned(OwnershipVisitor&) const {}
};
using NNPaddingPtr = std::shared_ptr<NNPadding>;

// By Apple's bits, or by a user-defined object.
class TRAINGRAPH_API PaddingPolicy {
 public:
  int method() const { return method_; }
  // Null where there are bits alone.
  const NNPaddingPtr& own() const { return own_; }
  PaddingPolicy(int method = PaddingMethod::kSizeSame)  // NOLINT(google-explicit-constructor)
      : method_(method) {}
  // Raises InvalidArgument for none.
  explicit PaddingPolicy(NNPaddingPtr own);

 private:
  int method_;
  NNPaddingPtr own_;
};

// One source, one result. The forms that return images size them by the padding policy, set the
// offset by it, and have the allocator make them.
class TRAINGRAPH_API CNNKernel : public ClippedKernel, public AllocatesImages {
 public:
  const Offset& offset() const { return window_.offset; }
  virtual void set_offset(const Offset& value) { set(window_.offset, value); }
  EdgeMode edge_mode() const { return window_.edge_mode; }
  void set_edge_mode(EdgeMode value) { set(window_.edge_mode, value); }
  const KernelWindow& window() const { return window_; }
  const PaddingPolicy& padding() const { return padding_; }
  void set_padding(PaddingPolicy value) { padding_ = std::move(value); }
  int padding_method() const { return padding_.method(); }
  void set_padding_method(int value) { padding_ = value; }
  // The channels of the source that are read; offsets are multiples of 4.
  const ChannelRange& source_channels() const { return source_channels_; }
  void set_source_channels(const ChannelRange& value) { set_channels(source_channels_, value); }
  void visit_owned(OwnershipVisitor& visitor) const override;

  void encode_batch(CommandBuffer& buffer, const ImageBatch& sources,
                    const ImageBatch& destinations);
  void encode_batch(CommandBuffer& buffer, const ImageBatch& sources, const StateBatch& states,
                    const ImageBatch& destinations);
  ImageBatch encode_batch(CommandBuffer& buffer, const ImageBatch& sources);
  // Makes the states too, permanent or temporary ones.
  ImageBatch encode_batch(CommandBuffer& buffer, const ImageBatch& sources, StateBatch& states,
                          bool temporary_states);

  // Null where the kernel has no state. `temporary_on` is null for a permanent one.
  StateBatch result_state_batch(const ImageBatch& sources, const CommandBuffer* temporary_on) const;
  virtual bool is_result_state_reused_across_batch() const { return false; }
  virtual bool append_batch_barrier() const { return false; }
  // By the bits of the padding policy; sets the offset.
  virtual ImageDescriptor destination_image_descriptor(const ImageDescriptor& source);
  // By the padding policy, which is called if it is user-defined; sets the offset.
  ImageDescriptor destination_image_descriptor(const ImageBatch& sources,
                                               const StateBatch& states = {});

 protected:
  explicit CNNKernel(const Device& device) : ClippedKernel(device) {}

  virtual void check_source(const ImageDescriptor& source) const;
  virtual std::int64_t result_channels(const ImageDescriptor& source) const {
    return source.feature_channels;
  }
  // The result's size, but for the rows and columns of a moving window.
  virtual ImageDescriptor result_of(const ImageDescriptor& source) const;
  // Whether any result size is allowed (a moving window), or only that of result_of().
  virtual bool has_window() const { return false; }
  // Whether the offset is the source's pixel of the first one that is written.
  virtual bool has_place() const { return !has_window(); }
  // Raises Unsupported for the reserved alignment.
  void check_padding_method() const;
  // The size that a user-defined policy gives for this suggestion.
  ImageDescriptor by_own_policy(const ImageBatch& sources, const StateBatch& states,
                                const ImageDescriptor& suggested);
  // Whether a state holds something of each image, so that it belongs to all that are there.
  virtual bool has_state_per_image() const { return false; }
  virtual StatePtr make_state(const ImageDescriptor& source, const CommandBuffer* on) const;
  // The kind of what make_state() makes.
  virtual const char* state_kind() const { return "MPSNNGradientState"; }
  // Buffers that the operation reads beside the image, and those of the states.
  virtual void add_operands(Recording&) const {}
  virtual void record(CommandBuffer& buffer, const ImageBatch& sources, const StateBatch& states,
                      const ImageBatch& destinations);
  virtual void check_destinations(const ImageBatch& sources, const ImageBatch& destinations) const;
  // Source and destination images, or their parts, as operands.
  void add_source(Recording& recording, const ImageBatch& sources) const;
  void add_destination(Recording& recording, const ImageBatch& sources,
                       const ImageBatch& destinations) const;
  bool is_partial() const override {
    return ClippedKernel::is_partial() || !source_channels_.whole() || !place().is_zero();
  }

  KernelWindow window_;
  PaddingPolicy padding_;
  ChannelRange source_channels_;

 private:
  // The offset of a kernel without a window, within an image.
  Offset place() const {
    return has_place() ? Offset{window_.offset.x, window_.offset.y, 0} : Offset{};
  }
  // The first image that is read.
  std::int64_t first_image() const { return has_window() || has_place() ? window_.offset.z : 0; }
  void encode_images(CommandBuffer& buffer, const ImageBatch& sources, const StateBatch& states,
                     const ImageBatch& destinations);
  ImagePart written_part(const ImageDescriptor& source, const ImageDescriptor& destination) const;
  void check_parts_have_gradient(const ImageDescriptor& source) const;
  // Tells the states what was read and written.
  void set_parts(const CommandBuffer& buffer, const ImageBatch& sources, const StateBatch& states,
                 const ImageBatch& destinations) const;
  // Where only some images of an object were read and written.
  void set_images(const StateBatch& states, const Neighbours& read,
                  const ImageBatch& destinations) const;
};

// Primary: the gradient that comes in; secondary: the forward source. The forms that return images
// set the secondary properties and the kernel offset from the state; those with a destination use
// the properties as they are.
class TRAINGRAPH_API CNNGradientKernel : public TwoSourceKernel, public AllocatesImages {
 public:
  const Offset& primary_offset() const { return primary_offset_; }
  void set_primary_offset(const Offset& value) { set(primary_offset_, value); }
  const Offset& secondary_offset() const { return window_.offset; }
  void set_secondary_offset(const Offset& value) { set(window_.offset, value); }
  EdgeMode secondary_edge_mode() const { return window_.edge_mode; }
  void set_secondary_edge_mode(EdgeMode value) { set(window_.edge_mode, value); }
  std::int64_t kernel_offset_x() const { return kernel_offset_.x; }
  std::int64_t kernel_offset_y() const { return kernel_offset_.y; }
  void set_kernel_offset_x(std::int64_t value) { set(kernel_offset_.x, value); }
  void set_kernel_offset_y(std::int64_t value) { set(kernel_offset_.y, value); }
  const KernelWindow& window() const { return window_; }
  void visit_owned(OwnershipVisitor& visitor) const override { visitor(image_allocator()); }

  ImageBatch encode_batch(CommandBuffer& buffer, const ImageBatch& gradients,
                          const ImageBatch& sources, const StateBatch& states);
  void encode_batch(CommandBuffer& buffer, const ImageBatch& gradients, const ImageBatch& sources,
                    const StateBatch& states, const ImageBatch& destinations);
  // Sets the secondary properties from the state.
  ImageDescriptor destination_image_descriptor(const ImageBatch& gradients,
                                               const ImageBatch& sources, const StateBatch& states);

 protected:
  explicit CNNGradientKernel(const Device& device) : TwoSourceKernel(device) {}

  virtual void configure(const GradientState& state);
  // Whether this kernel's forward kernel makes such states.
  virtual bool takes(const State& state) const;
  virtual void check_gradient(const ImageDescriptor& gradient, const ImageDescriptor& source) const;
  // The size that the secondary image must have, and that of the result, by the state.
  virtual ImageDescriptor secondary_of(const GradientState& state) const { return state.source(); }
  virtual ImageDescriptor result_of(const GradientState& state) const { return state.source(); }
  // Buffers beside the two images, read and written.
  virtual void add_operands(Recording&, const StateBatch&) {}
  // Whether the forward kernel moves a window; else its clip rectangle is a part of its result.
  virtual bool has_window() const { return false; }
  virtual bool takes_parts() const { return true; }
  // Whether the z of its offsets are images, of which it may read some.
  virtual bool takes_some_images() const { return takes_parts(); }
  // Whether the primary offset says anything, and the kernel offset.
  virtual bool has_gradient_offset() const { return false; }
  virtual bool has_kernel_offset() const { return has_gradient_offset(); }
  // Whether a state is that of a batch of which these images may be a part.
  virtual bool takes_parts_of_batch() const { return false; }
  // `there` is how many images the sources have, of which these may be some.
  void check(CommandBuffer& buffer, const ImageBatch& gradients, const ImageBatch& sources,
             const StateBatch& states, std::int64_t there) const;

  // Sets by the state what is read and written.
  virtual void configure_parts(const GradientState& state);
  // What is read of the two images, and where the result goes.
  virtual GradientParts parts(const ImageDescriptor& gradient, const ImageDescriptor& source,
                              const GradientState& state) const;
  // The channels of the incoming gradient. Raises ShapeError unless it has the size of the forward
  // kernel's clip rectangle.
  ImagePart incoming(const ImageDescriptor& gradient, const GradientState& state) const;
  // Puts an incoming gradient into a larger one of zeros. Raises ShapeError where it does not fit.
  void put(ImagePart& gradient, std::int64_t rows, std::int64_t columns, const Offset& at) const;
  void add_sources(Recording& recording, const ImageBatch& gradients, const ImageBatch& sources,
                   const GradientParts& parts) const;
  // Counts a reading of each, and that their batch has gradients.
  void read_states(const CommandBuffer& buffer, const StateBatch& states) const;

  KernelWindow window_;
  Offset primary_offset_;
  Offset kernel_offset_;

 private:
  void encode_images(CommandBuffer& buffer, const ImageBatch& gradients, const ImageBatch& sources,
                     const StateBatch& states, const ImageBatch& destinations, std::int64_t there);
};

}  // namespace traingraph::mps
