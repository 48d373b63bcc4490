// The classes that kernels derive from. What programs call beside their properties is bound by
// hand.
#include <traingraph/mps/arithmetic.h>

#include "mps/description/describe_kernel.h"

namespace traingraph::mps {
namespace {

constexpr const char* kFirstChannel = "The first channel that is read.";
constexpr const char* kMostChannels = "The most channels that are read.";
constexpr auto kOffset = &ChannelRange::offset;
constexpr auto kCount = &ChannelRange::max_count;

template <class K, class D>
void describe_clip(D& described) {
  described
      .settable("clip_rect", &K::clip_rect, &K::set_clip_rect,
                "MTLRegion of the destination that is written, as far as it is there; the rest "
                "stays as it is. The forms that return images set it to everything.")
      .settable("destination_feature_channel_offset", &K::destination_feature_channel_offset,
                &K::set_destination_feature_channel_offset,
                "The first channel of the destination that is written.")
      .in(kMultipleOfFour)
      .settable("makes_temporary_images", &K::makes_temporary_images,
                &K::set_makes_temporary_images, kMakesTemporaryImages)
      .settable(kAllocator, &K::image_allocator, &K::set_image_allocator, kAllocatorText)
      .only_copied()
      .property("is_state_modified", &K::is_state_modified,
                "Whether an encoding writes gradients or statistics into a state that is there "
                "before.");
}

template <class K, class D>
void describe_two_sources(D& described, const char* primary, const char* secondary) {
  describe_clip<K>(described);
  described.settable("primary_offset", &K::primary_offset, &K::set_primary_offset, primary)
      .settable("secondary_offset", &K::secondary_offset, &K::set_secondary_offset, secondary)
      .settable_part("primary_source_feature_channel_offset", &K::primary_channels,
                     &K::set_primary_channels, kOffset, kFirstChannel)
      .in(kMultipleOfFour)
      .settable_part("primary_source_feature_channel_max_count", &K::primary_channels,
                     &K::set_primary_channels, kCount, kMostChannels)
      .in(kOneOrMore)
      .settable_part("secondary_source_feature_channel_offset", &K::secondary_channels,
                     &K::set_secondary_channels, kOffset, kFirstChannel)
      .in(kMultipleOfFour)
      .settable_part("secondary_source_feature_channel_max_count", &K::secondary_channels,
                     &K::set_secondary_channels, kCount, kMostChannels)
      .in(kOneOrMore);
}

template <class K, class D>
void describe_window(D& described, const std::string& prefix, const char* text) {
  const auto size = [&](const char* name, std::int64_t KernelWindow::* member) {
    described.property(
        prefix + name, [member](const K& kernel) { return kernel.window().*member; }, text);
  };
  size("kernel_width", &KernelWindow::kernel_width);
  size("kernel_height", &KernelWindow::kernel_height);
  size("stride_in_pixels_x", &KernelWindow::stride_x);
  size("stride_in_pixels_y", &KernelWindow::stride_y);
  size("dilation_rate_x", &KernelWindow::dilation_x);
  size("dilation_rate_y", &KernelWindow::dilation_y);
}

template <class K, class D>
void describe_batches(D& described) {
  described
      .function("is_result_state_reused_across_batch", &K::is_result_state_reused_across_batch,
                "Whether one state serves all images of a batch.")
      .function("append_batch_barrier", &K::append_batch_barrier,
                "Whether the whole batch must be done before anybody reads a result.");
}

template <class D>
void describe_direction(D& described, bool is_backwards) {
  described.property(
      "is_backwards", [is_backwards](const Kernel&) { return is_backwards; },
      "Whether it computes gradients.");
}

ClassDescription kernel() {
  return Describing<Kernel, Kernel>("MPSKernel",
                                    "A kernel: an operation that command buffers encode.")
      .property("device", &Kernel::device, "The device that runs it.")
      .settable("label", &Kernel::label, "A name for messages.")
      .function("__repr__", described_text<Kernel>, "");
}

ClassDescription forward_kernel() {
  using K = CNNKernel;
  Describing<K, Kernel> described("MPSCNNKernel", "One source image, one result image.");
  describe_clip<K>(described);
  described
      .settable("offset", &K::offset, &K::set_offset,
                "(x, y, z): the source pixel at the middle of the first window, and the first "
                "image that is read of an object with several.")
      .settable("edge_mode", &K::edge_mode, &K::set_edge_mode,
                "The values read beyond the image's edge.")
      .settable("padding", &K::padding, &K::set_padding,
                "The policy by which the forms that return images size them and set the offset: "
                "of MPSNNPaddingMethod, or an object with padding_method(). With CUSTOM its "
                "destination_image_descriptor(for_source_images, source_states, for_kernel, "
                "suggested_descriptor) gives the size, and may set the kernel's offset. An average "
                "under EXCLUDE_EDGES gets edge mode CLAMP as well; other kernels take no notice "
                "of it.")
      .settable_part("source_feature_channel_offset", &K::source_channels, &K::set_source_channels,
                     kOffset, kFirstChannel)
      .in(kMultipleOfFour)
      .settable_part("source_feature_channel_max_count", &K::source_channels,
                     &K::set_source_channels, kCount, kMostChannels)
      .in(kOneOrMore);
  describe_window<K>(described, "", "In pixels.");
  describe_batches<K>(described);
  describe_direction(described, false);
  return described;
}

ClassDescription gradient_kernel() {
  using K = CNNGradientKernel;
  Describing<K, Kernel> described(
      "MPSCNNGradientKernel",
      "Primary image: the incoming gradient; secondary: the forward source.");
  describe_two_sources<K>(described, "(x, y, z) in the gradient; z: an image.",
                          "(x, y, z) in the forward source; z: an image.");
  described
      .settable("kernel_offset_x", &K::kernel_offset_x, &K::set_kernel_offset_x,
                "In the gradient with zeros between.")
      .settable("kernel_offset_y", &K::kernel_offset_y, &K::set_kernel_offset_y,
                "In the gradient with zeros between.")
      .settable("secondary_edge_mode", &K::secondary_edge_mode, &K::set_secondary_edge_mode,
                "Beyond the forward source.");
  describe_window<K>(described, "secondary_", "The window of the forward kernel, in pixels.");
  describe_direction(described, true);
  return described;
}

ClassDescription binary_kernel() {
  using K = CNNBinaryKernel;
  Describing<K, Kernel> described("MPSCNNBinaryKernel", "Two source images, one result image.");
  describe_two_sources<K>(
      described,
      "(x, y, z): the primary image's pixel of the first one that is written, and image.",
      "(x, y, z): the secondary image's pixel of the first one that is written, and image.");
  described.settable(
      "padding", &K::padding, &K::set_padding,
      "Of MPSNNPaddingMethod, whose sizes are those of the sources here, or an object as "
      "for other kernels: with CUSTOM it gives the size, and may set both offsets, in "
      "the forms that return images.");
  describe_batches<K>(described);
  describe_direction(described, false);
  return described;
}

}  // namespace

void describe_state_bases(Classes& classes) {
  classes.push_back(
      Describing<State, State>("MPSState", "Data that one kernel passes to another beside images.")
          .settable("label", &State::label, "A name for messages.")
          .property("is_temporary", &State::is_temporary, "Whether it lives on one command buffer.")
          .settable("read_count", &State::read_count, &State::set_read_count,
                    "How often a temporary one may still be read; 0 for a permanent one.")
          .function("synchronize", &State::synchronize,
                    "Before the host reads its buffers behind a buffer's run; reading waits for "
                    "the device here in any case. Errors: a temporary state; a buffer of another "
                    "device, or one that was committed.",
                    {{"command_buffer", "The command buffer that runs before."}})
          .function("__repr__", described_text<State>, ""));
  classes.push_back(Describing<GradientState, State>(
      "MPSNNGradientState", "The state of a forward kernel that its gradient kernel reads."));
}

void describe_bases(Classes& classes) {
  classes.insert(classes.end(), {kernel(), forward_kernel(), gradient_kernel(), binary_kernel()});
}

}  // namespace traingraph::mps
