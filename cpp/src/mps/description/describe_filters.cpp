// Softmax, dropout, upsampling, and what moves elements.
#include <traingraph/mps/dropout.h>
#include <traingraph/mps/rearrangement.h>
#include <traingraph/mps/softmax.h>
#include <traingraph/mps/upsampling.h>

#include "mps/description/describe_kernel.h"

namespace traingraph::mps {
namespace {

// --- softmax -------------------------------------------------------------------------------------

// Python derives both from `Parent`, whose objects they are there: one class of C++ is one of
// pybind11's.
template <class K, class Parent>
void describe_softmax(Classes& classes, const char* name, bool logarithm, const char* summary,
                      const char* text) {
  classes.push_back(
      describe_kernel<Parent, Parent>(name, summary).made_by(text, [logarithm](const Given& given) {
        return std::make_shared<K>(given.get<Device>("device"), logarithm);
      }));
}

void describe_softmaxes(Classes& classes) {
  const auto forward = [&](const char* name, bool logarithm) {
    describe_softmax<CNNSoftMax, CNNKernel>(
        classes, name, logarithm, "Over the channels of each pixel.", "Shapes: any to the same.");
  };
  const auto gradient = [&](const char* name, bool logarithm, const char* summary) {
    describe_softmax<CNNSoftMaxGradient, CNNGradientKernel>(
        classes, name, logarithm, summary,
        "The secondary image is the forward result y, not its source.");
  };
  forward("MPSCNNSoftMax", false);
  forward("MPSCNNLogSoftMax", true);
  gradient("MPSCNNSoftMaxGradient", false, "dx = y (dy - sum of dy y).");
  gradient("MPSCNNLogSoftMaxGradient", true, "dx = dy - exp(y) sum of dy.");
}

// --- dropout -------------------------------------------------------------------------------------

template <class K, class Parent>
void describe_dropout(Classes& classes, const char* name, const char* summary, const char* text) {
  constexpr const char* kSeedText = "The seed of the masks.";
  classes.push_back(
      describe_kernel<K, Parent>(name, summary)
          .argument(
              "keep_probability", [](const K& k) { return k.parameters().keep_probability; },
              "The share of elements that is kept.")
          .in(kProbability)
          .kept_argument(
              "seed", [](const K& k) { return static_cast<std::int64_t>(k.parameters().seed); },
              kSeedText)
          .property(
              "seed", [](const K& k) { return k.parameters().seed; }, kSeedText)
          .argument(
              "mask_stride_in_pixels",
              [](const K& k) {
                const DropoutParameters& p = k.parameters();
                return MaskStride{p.mask_stride_x, p.mask_stride_y, p.mask_stride_channels};
              },
              "(width, height, depth); 0: one decision for all elements along the axis.",
              MaskStride{})
          .in(kZeroOrOne)
          .made_by(text, [](const Given& given) {
            const auto stride = given.get<MaskStride>("mask_stride_in_pixels");
            const auto seed = static_cast<std::uint64_t>(given.get<std::int64_t>("seed"));
            return std::make_shared<K>(given.get<Device>("device"),
                                       DropoutParameters{given.get<float>("keep_probability"), seed,
                                                         stride.x, stride.y, stride.channels});
          }));
}

// --- sizes ---------------------------------------------------------------------------------------

template <class K>
bool align_corners(const K& kernel) {
  return kernel.upsampling().align_corners;
}
constexpr const char* kAlignCorners = "align_corners";
constexpr const char* kAlignCornersText =
    "Whether first and last pixels of source and result coincide.";

template <class K, class D>
void describe_scales(D& described) {
  described
      .property(
          "scale_factor_x", [](const K& k) { return static_cast<double>(k.upsampling().scale_x); },
          "Result columns per source column.")
      .property(
          "scale_factor_y", [](const K& k) { return static_cast<double>(k.upsampling().scale_y); },
          "Result rows per source row.");
}

// Corners are an argument of the bilinear forward kernel, a property of gradient kernels.
template <class K>
void describe_upsampling(Classes& classes, const char* name, bool bilinear, const char* summary,
                         const char* text) {
  const bool has_corners = bilinear && std::is_same_v<K, CNNUpsampling>;
  auto described = describe_kernel<K, K>(name, summary);
  described
      .kept_argument(
          "integer_scale_factor_x", [](const K& k) { return k.upsampling().scale_x; },
          "Result columns per source column.")
      .in(kOneOrMore)
      .kept_argument(
          "integer_scale_factor_y", [](const K& k) { return k.upsampling().scale_y; },
          "Result rows per source row.")
      .in(kOneOrMore);
  if (has_corners) {
    described.kept_argument(kAlignCorners, align_corners<K>, kAlignCornersText, false);
  }
  described.made_by(text, [=](const Given& given) {
    return std::make_shared<K>(
        given.get<Device>("device"),
        Upsampling{bilinear, given.get<std::int64_t>("integer_scale_factor_x"),
                   given.get<std::int64_t>("integer_scale_factor_y"),
                   has_corners && given.get<bool>(kAlignCorners)});
  });
  classes.push_back(described);
}

void describe_sizes(Classes& classes) {
  using Forward = CNNUpsampling;
  using Gradient = CNNUpsamplingGradient;
  Describing<Forward, Kernel, CNNKernel> forward("MPSCNNUpsampling",
                                                 "A larger image by whole factors.");
  describe_scales<Forward>(forward);
  classes.push_back(forward.property(kAlignCorners, align_corners<Forward>, kAlignCornersText));
  Describing<Gradient, Kernel, CNNGradientKernel> gradient(
      "MPSCNNUpsamplingGradient", "The sum over the pixels that read a source pixel.");
  describe_scales<Gradient>(gradient);
  classes.push_back(gradient.settable(
      kAlignCorners, align_corners<Gradient>, &Gradient::set_align_corners,
      "Of the forward kernel; the form that returns an image takes it from the state. An addition "
      "of traingraph."));
  describe_upsampling<Forward>(classes, "MPSCNNUpsamplingNearest", false, "Every pixel as a block.",
                               "Shapes: (N, C, H, W) to (N, C, sy H, sx W).");
  describe_upsampling<Forward>(
      classes, "MPSCNNUpsamplingBilinear", true, "Pixels between their neighbours.",
      "Shapes: (N, C, H, W) to (N, C, sy H, sx W). Without align_corners pixel i of the result "
      "lies at i / scale of the source, and the edge goes on beyond it.");
  describe_upsampling<Gradient>(classes, "MPSCNNUpsamplingNearestGradient", false,
                                "The sum of each block.", "The forward kernel's factors.");
  describe_upsampling<Gradient>(classes, "MPSCNNUpsamplingBilinearGradient", true,
                                "The interpolation transposed.", "The forward kernel's factors.");
  using Resize = NNResizeBilinear;
  classes.push_back(
      describe_kernel<Resize, CNNKernel>("MPSNNResizeBilinear",
                                         "An image of any size; it has no gradient kernel.")
          .argument("resize_width", &Resize::resize_width, "The result's columns.")
          .in(kOneOrMore)
          .argument("resize_height", &Resize::resize_height, "The result's rows.")
          .in(kOneOrMore)
          .argument(kAlignCorners, &Resize::align_corners, kAlignCornersText, false)
          .made_of<Device, std::int64_t, std::int64_t, bool>(
              "Shapes: (N, C, H, W) to (N, C, resize_height, resize_width). Without align_corners "
              "pixel i of the result lies at (i + 1/2) size / resize size - 1/2 of the source, and "
              "the edge goes on beyond it."));
}

// --- moves ---------------------------------------------------------------------------------------

Coordinate coordinate_of(const Offset& offset) { return {offset.x, offset.y, offset.z}; }
Offset offset_of(const Coordinate& at) { return {at.x, at.y, at.channel}; }

void describe_reshape(Classes& classes) {
  classes.push_back(
      describe_kernel<NNReshape, CNNKernel>("MPSNNReshape",
                                            "The same elements as an image of another size.")
          .settable(
              "_reshaped",
              [](const NNReshape& kernel) { return coordinate_of(kernel.reshaped_size()); },
              [](NNReshape& kernel, const Coordinate& size) {
                if (size == Coordinate{}) return;  // as the source
                kernel.set_reshaped(size.x, size.y, size.channel);
              },
              "(width, height, feature channels) of the images that are returned; 0: as the "
              "source.")
          .made_of<Device>(
              "Shapes: any to one of as many elements, which are counted by channels, then rows, "
              "then columns."));
  classes.push_back(describe_kernel<NNReshapeGradient, CNNGradientKernel>(
                        "MPSNNReshapeGradient", "The gradient in the source's size.")
                        .made_of<Device>("Reads the size of the forward source alone."));
}

void describe_padding(Classes& classes) {
  constexpr const char* kBefore = "padding_size_before";
  constexpr const char* kAfter = "padding_size_after";
  constexpr const char* kBeforeText = "(x, y, channel) to the left, above and in front.";
  constexpr const char* kAfterText = "(x, y, channel) to the right, below and behind.";
  const auto before = [](const NNPad& kernel) {
    return coordinate_of(kernel.padding_size_before());
  };
  const auto after = [](const NNPad& kernel) { return coordinate_of(kernel.padding_size_after()); };
  classes.push_back(
      describe_kernel<NNPad, CNNKernel>("MPSNNPad",
                                        "Pixels and channels around an image, by edge mode.")
          .kept_argument(kBefore, before, kBeforeText, {})
          .in(kLimit)
          .kept_argument(kAfter, after, kAfterText, {})
          .in(kLimit)
          .optional_argument("fill_value_array", &NNPad::fill_values, "One per result channel.")
          .made_by("Shapes: each extent grows by the two sizes (x, y, channel). A fill value per "
                   "result channel makes the edge mode "
                   "CONSTANT.",
                   [](const Given& given) {
                     return std::make_shared<NNPad>(
                         given.get<Device>("device"), offset_of(given.get<Coordinate>(kBefore)),
                         offset_of(given.get<Coordinate>(kAfter)),
                         given.get<std::vector<float>>("fill_value_array"));
                   })
          .settable(
              kBefore, before,
              [](NNPad& kernel, const Coordinate& size) {
                kernel.set_padding_size_before(offset_of(size));
              },
              kBeforeText)
          .settable(
              kAfter, after,
              [](NNPad& kernel, const Coordinate& size) {
                kernel.set_padding_size_after(offset_of(size));
              },
              kAfterText)
          .property("_fill_value_array", &NNPad::fill_values, "One per result channel, or empty.")
          .settable("fill_value", &NNPad::fill_value, &NNPad::set_fill_value,
                    "The value of edge mode CONSTANT."));
  classes.push_back(
      describe_kernel<NNPadGradient, CNNGradientKernel>(
          "MPSNNPadGradient",
          "The image's part; a clamped or mirrored margin's is added to what it was copied from.")
          .made_of<Device>("primary_offset is the size before, secondary_edge_mode that of the "
                           "forward kernel."));
}

void describe_channel_moves(Classes& classes) {
  classes.push_back(
      describe_kernel<NNSlice, CNNKernel>("MPSNNSlice", "Some of the channels.")
          .settable("source_feature_channel_offset", &NNSlice::source_feature_channel_offset,
                    &NNSlice::set_source_feature_channel_offset, "The first channel.")
          .in(kLimit)
          .settable("source_feature_channel_max_count", &NNSlice::source_feature_channel_max_count,
                    &NNSlice::set_source_feature_channel_max_count,
                    "The largest number of channels that are read.")
          .in(kOneOrMore)
          .made_of<Device>(
              "Shapes: (N, C, H, W) to (N, K, H, W): all channels until the properties "
              "say otherwise."));
  classes.push_back(
      describe_kernel<NNConcatenation, Kernel>("MPSNNConcatenation",
                                               "The sources' channels one after another.")
          .settable("makes_temporary_images", &NNConcatenation::makes_temporary_images,
                    &NNConcatenation::set_makes_temporary_images, kMakesTemporaryImages)
          .settable(kAllocator, &NNConcatenation::image_allocator,
                    &NNConcatenation::set_image_allocator, kAllocatorText)
          .only_copied()
          .settable("packs_channels", &NNConcatenation::packs_channels,
                    &NNConcatenation::set_packs_channels,
                    "Whether a source begins where the one before it ends, as at the beginning, or "
                    "at the next multiple of four channels, with zeros between, as in graphs.")
          .made_of<Device>("Shapes: sources that differ in their channels alone. Not a class of "
                           "Apple's, whose graphs alone join images."));
}

}  // namespace

void describe_dropout_states(Classes& classes) {
  classes.push_back(Describing<CNNDropoutGradientState, State, GradientState>(
      "MPSCNNDropoutGradientState", "Which mask an image got."));
}

void describe_filters(Classes& classes) {
  describe_softmaxes(classes);
  describe_dropout<CNNDropout, CNNKernel>(
      classes, "MPSCNNDropout", "x / keep_probability with that probability, else 0.",
      "Shapes: any to the same. Masks are a function of the seed, of how often the kernel was "
      "encoded, and of the element: "
      "the same one on every backend, but for Metal where it encodes Apple's kernel, which has "
      "other masks.");
  describe_dropout<CNNDropoutGradient, CNNGradientKernel>(
      classes, "MPSCNNDropoutGradient", "dx = dy mask / keep_probability.",
      "The mask is the state's. Errors: states that were not encoded together, in their order.");
  describe_sizes(classes);
  describe_reshape(classes);
  describe_padding(classes);
  describe_channel_moves(classes);
}

}  // namespace traingraph::mps
