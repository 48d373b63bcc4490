// The sizes of results by padding policies: Apple's bits, and objects of the program's, which are
// asked.
#include "mps/kernels/padding_policy.h"

#include <traingraph/errors.h>
#include <traingraph/mps/arithmetic.h>

#include "mps/recording/image_parts.h"

namespace traingraph::mps {

namespace {

// One axis under a padding policy: how many positions, and where the middle of the first one is.
struct Fitted {
  std::int64_t positions;
  std::int64_t offset;
};
Fitted fit(std::int64_t source, std::int64_t kernel, std::int64_t stride, std::int64_t dilation,
           int method, int remainder_flag) {
  const std::int64_t extent = extent_of(kernel, dilation);
  std::int64_t positions = 0;
  switch (method & PaddingMethod::kSizeMask) {
    case PaddingMethod::kSizeSame:
      positions = (source + stride - 1) / stride;
      break;
    case PaddingMethod::kSizeFull:
      positions = (source + extent - 2) / stride + 1;
      break;
    default:
      positions = source < extent ? 0 : (source - extent) / stride + 1;
  }
  const std::int64_t both_sides = (positions - 1) * stride + extent - source;
  return {positions, extent / 2 - padding_before(both_sides, method, remainder_flag)};
}

}  // namespace

NNPadding::~NNPadding() = default;
ImageDescriptor NNPadding::destination_image_descriptor(const ImageBatch&, const StateBatch&,
                                                        CNNKernel& kernel, const ImageDescriptor&) {
  throw Unsupported("[" + kernel.description() +
                    "] a padding policy with CUSTOM that has no destination_image_descriptor()");
}
ImageDescriptor NNPadding::destination_image_descriptor(const ImageBatch&, const StateBatch&,
                                                        CNNBinaryKernel& kernel,
                                                        const ImageDescriptor&) {
  throw Unsupported("[" + kernel.description() +
                    "] a padding policy with CUSTOM that has no destination_image_descriptor() "
                    "for two sources");
}

PaddingPolicy::PaddingPolicy(NNPaddingPtr own) : method_(0), own_(std::move(own)) {
  if (own_ == nullptr) throw InvalidArgument("[MPSNNPadding] expected a policy but got none");
  method_ = own_->padding_method();
}

void CNNKernel::check_padding_method() const {
  if ((padding_method() & PaddingMethod::kAlignMask) == PaddingMethod::kAlignMask) {
    refuse_use("padding policies of the reserved alignment: Apple gives it no meaning");
  }
}

ImageDescriptor CNNKernel::destination_image_descriptor(const ImageDescriptor& image) {
  const ImageDescriptor source = seen(image, source_channels_);
  check_source(source);
  write_everything();
  ImageDescriptor result = unclamped(result_of(source));
  if (has_place()) set_offset({});
  if (!has_window()) return result;
  check_padding_method();
  const Fitted y = fit(source.height, window_.kernel_height, window_.stride_y, window_.dilation_y,
                       padding_method(), PaddingMethod::kRemainderToBottom);
  const Fitted x = fit(source.width, window_.kernel_width, window_.stride_x, window_.dilation_x,
                       padding_method(), PaddingMethod::kRemainderToRight);
  if (x.positions < 1 || y.positions < 1) {
    refuse_shape("expected a source as large as the window but got " + to_string(source));
  }
  result.height = y.positions;
  result.width = x.positions;
  set_offset({x.offset, y.offset, 0});
  return result;
}

ImageDescriptor CNNKernel::destination_image_descriptor(const ImageBatch& sources,
                                                        const StateBatch& states) {
  check_batch(sources, "source images");
  return by_own_policy(sources, states, destination_image_descriptor(sources[0]->descriptor()));
}

ImageDescriptor ClippedKernel::by_policy(const PaddingPolicy& policy,
                                         const ImageDescriptor& suggested, bool has_window,
                                         const std::function<ImageDescriptor(NNPadding&)>& ask) {
  if ((policy.method() & PaddingMethod::kCustom) == 0) return suggested;
  if (policy.own() == nullptr) {
    refuse(
        "expected a padding policy that is an object, for its method has CUSTOM, but got a "
        "method alone");
  }
  // It may set another one while it is asked.
  const NNPaddingPtr own = policy.own();
  const ImageDescriptor result = ask(*own);
  if (result.width < 1 || result.height < 1 ||
      result.feature_channels != suggested.feature_channels ||
      result.number_of_images != suggested.number_of_images) {
    refuse_shape(
        "expected a padding policy that gives 1 pixel or more in images and channels as "
        "suggested, " +
        to_string(suggested) + ", but got " + to_string(result));
  }
  const bool is_resized = result.width != suggested.width || result.height != suggested.height;
  if (!has_window && is_resized && clip_.whole()) {
    clip_.width = result.width;
    clip_.height = result.height;
  }
  return result;
}

void ClippedKernel::refuse_own(const PaddingPolicy& policy, const char* why) const {
  if ((policy.method() & PaddingMethod::kCustom) == 0) return;
  refuse_use(std::string("a padding policy with CUSTOM: ") + why);
}

ImageDescriptor CNNKernel::by_own_policy(const ImageBatch& sources, const StateBatch& states,
                                         const ImageDescriptor& suggested) {
  return by_policy(padding_, suggested, has_window(), [&](NNPadding& policy) {
    return policy.destination_image_descriptor(sources, states, *this, suggested);
  });
}

}  // namespace traingraph::mps
