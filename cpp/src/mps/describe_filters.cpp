// Neurons, pooling, softmax, dropout, upsampling, and what moves elements.
#include "mps/kernel_description.h"

namespace traingraph::mps {
namespace {

template <auto kMember, class K>
std::int64_t window(const K& kernel) {
  return kernel.window().*kMember;
}

// --- neurons -------------------------------------------------------------------------------------

struct NamedNeuron {
  const char* kind;
  NeuronType type;
};
constexpr NamedNeuron kNamedNeurons[] = {
    {"MPSCNNNeuronReLU", NeuronType::kReLU},
    {"MPSCNNNeuronSigmoid", NeuronType::kSigmoid},
    {"MPSCNNNeuronTanH", NeuronType::kTanH},
    {"MPSCNNNeuronLinear", NeuronType::kLinear},
    {"MPSCNNNeuronAbsolute", NeuronType::kAbsolute},
    {"MPSCNNNeuronSoftSign", NeuronType::kSoftSign},
    {"MPSCNNNeuronELU", NeuronType::kELU},
    {"MPSCNNNeuronHardSigmoid", NeuronType::kHardSigmoid},
    {"MPSCNNNeuronSoftPlus", NeuronType::kSoftPlus},
    {"MPSCNNNeuronReLUN", NeuronType::kReLUN},
    {"MPSCNNNeuronPower", NeuronType::kPower},
    {"MPSCNNNeuronExponential", NeuronType::kExponential},
    {"MPSCNNNeuronLogarithm", NeuronType::kLogarithm},
    {"MPSCNNNeuronPReLU", NeuronType::kPReLU},
};

void describe_neurons(KernelTable& table) {
  constexpr const char* kName = "neuron_descriptor";
  OldDescribing<CNNNeuron>(table, "MPSCNNNeuron")
      .argument(kName, &CNNNeuron::descriptor)
      .made_of<NeuronDescriptor>();
  OldDescribing<CNNNeuronGradient>(table, "MPSCNNNeuronGradient")
      .argument(kName, &CNNNeuronGradient::descriptor)
      .property("header_formula", &CNNNeuronGradient::header_formula,
                &CNNNeuronGradient::set_header_formula)
      .made_of<NeuronDescriptor>();
  for (const NamedNeuron& named : kNamedNeurons) {
    OldDescribing<CNNNeuron>(table, named.kind)
        .argument(kName, &CNNNeuron::descriptor)
        .made_by([named](const Device& device, const KernelArguments& given) {
          auto descriptor = given.get<NeuronDescriptor>(kName);
          if (descriptor.type != named.type) {
            throw InvalidArgument("expected the descriptor of this class's neuron but got another");
          }
          return std::make_shared<CNNNeuron>(device, std::move(descriptor), named.kind);
        });
  }
}

// --- windows -------------------------------------------------------------------------------------

// A pooling kernel or, with a prefix to the names, a gradient kernel.
template <class K>
OldDescribing<K> describe_pooling(KernelTable& table, const std::string& kind, CNNPoolingType type,
                               const std::string& prefix = "") {
  using W = KernelWindow;
  OldDescribing<K> pooling(table, kind);
  pooling.argument(prefix + "kernel_width", window<&W::kernel_width, K>)
      .argument(prefix + "kernel_height", window<&W::kernel_height, K>)
      .argument(prefix + "stride_in_pixels_x", window<&W::stride_x, K>)
      .argument(prefix + "stride_in_pixels_y", window<&W::stride_y, K>);
  const bool dilated = type == CNNPoolingType::kDilatedMax;
  if (dilated) {
    pooling.argument(prefix + "dilation_rate_x", window<&W::dilation_x, K>)
        .argument(prefix + "dilation_rate_y", window<&W::dilation_y, K>);
  }
  if (type == CNNPoolingType::kAverage) {
    pooling.property("zero_pad_size_x", window<&W::zero_pad_x, K>, &K::set_zero_pad_size_x)
        .property("zero_pad_size_y", window<&W::zero_pad_y, K>, &K::set_zero_pad_size_y);
  }
  pooling.made_by([=](const Device& device, const KernelArguments& given) {
    W sizes;
    const auto size = [&](const char* name) { return given.get<std::int64_t>(prefix + name); };
    sizes.kernel_width = size("kernel_width");
    sizes.kernel_height = size("kernel_height");
    sizes.stride_x = size("stride_in_pixels_x");
    sizes.stride_y = size("stride_in_pixels_y");
    if (dilated) sizes.dilation_x = size("dilation_rate_x");
    if (dilated) sizes.dilation_y = size("dilation_rate_y");
    return std::make_shared<K>(device, type, sizes);
  });
  return pooling;
}

void describe_pooling_pair(KernelTable& table, const std::string& kind, CNNPoolingType type) {
  describe_pooling<CNNPooling>(table, kind, type);
  describe_pooling<CNNPoolingGradient>(table, kind + "Gradient", type, "secondary_")
      .property(
          "source_size",
          [](const CNNPoolingGradient& kernel) {
            const Region& size = kernel.source_size();
            return Offset{size.width, size.height, size.depth};
          },
          [](CNNPoolingGradient& kernel, const Offset& size) {
            kernel.set_source_size({{}, size.x, size.y, size.z});
          });
}

// --- without a window ----------------------------------------------------------------------------

template <class K>
void describe_dropout(KernelTable& table, const char* kind) {
  OldDescribing<K>(table, kind)
      .argument("keep_probability", [](const K& k) { return k.parameters().keep_probability; })
      .argument("seed", [](const K& k) { return static_cast<std::int64_t>(k.parameters().seed); })
      .argument("mask_stride_in_pixels",
                [](const K& k) {
                  const DropoutParameters& p = k.parameters();
                  return Offset{p.mask_stride_x, p.mask_stride_y, p.mask_stride_channels};
                })
      .made_by([](const Device& device, const KernelArguments& given) {
        const auto stride = given.get<Offset>("mask_stride_in_pixels");
        const auto seed = static_cast<std::uint64_t>(given.get<std::int64_t>("seed"));
        return std::make_shared<K>(device, DropoutParameters{given.get<float>("keep_probability"),
                                                             seed, stride.x, stride.y, stride.z});
      });
}

// Corners are an argument of the bilinear forward kernel, a property of gradient kernels.
template <class K>
void describe_upsampling(KernelTable& table, const char* kind, bool bilinear) {
  constexpr bool kIsGradient = std::is_same_v<K, CNNUpsamplingGradient>;
  const bool has_corners = bilinear && !kIsGradient;
  const auto corners = [](const K& k) { return k.upsampling().align_corners; };
  OldDescribing<K> upsampling(table, kind);
  upsampling.argument("integer_scale_factor_x", [](const K& k) { return k.upsampling().scale_x; })
      .argument("integer_scale_factor_y", [](const K& k) { return k.upsampling().scale_y; });
  if (has_corners) upsampling.argument("align_corners", corners);
  if constexpr (kIsGradient) upsampling.property("align_corners", corners, &K::set_align_corners);
  upsampling.made_by([=](const Device& device, const KernelArguments& given) {
    return std::make_shared<K>(
        device, Upsampling{bilinear, given.get<std::int64_t>("integer_scale_factor_x"),
                           given.get<std::int64_t>("integer_scale_factor_y"),
                           has_corners && given.get<bool>("align_corners")});
  });
}

void describe_sizes(KernelTable& table) {
  describe_upsampling<CNNUpsampling>(table, "MPSCNNUpsamplingNearest", false);
  describe_upsampling<CNNUpsampling>(table, "MPSCNNUpsamplingBilinear", true);
  describe_upsampling<CNNUpsamplingGradient>(table, "MPSCNNUpsamplingNearestGradient", false);
  describe_upsampling<CNNUpsamplingGradient>(table, "MPSCNNUpsamplingBilinearGradient", true);
  using Resize = NNResizeBilinear;
  OldDescribing<Resize>(table, "MPSNNResizeBilinear")
      .argument("resize_width", &Resize::resize_width)
      .argument("resize_height", &Resize::resize_height)
      .argument("align_corners", &Resize::align_corners)
      .made_of<std::int64_t, std::int64_t, bool>();
}

void describe_moves(KernelTable& table) {
  OldDescribing<NNReshape>(table, "MPSNNReshape")
      .property("_reshaped", &NNReshape::reshaped_size,
                [](NNReshape& kernel, const Offset& size) {
                  if (!size.is_zero()) kernel.set_reshaped(size.x, size.y, size.z);
                })
      .made_of<>();
  OldDescribing<NNReshapeGradient>(table, "MPSNNReshapeGradient").made_of<>();
  OldDescribing<NNPad>(table, "MPSNNPad")
      .argument("padding_size_before", &NNPad::padding_size_before)
      .argument("padding_size_after", &NNPad::padding_size_after)
      .argument("fill_value_array", &NNPad::fill_values)
      .property("fill_value", &NNPad::fill_value, &NNPad::set_fill_value)
      .made_of<Offset, Offset, std::vector<float>>();
  OldDescribing<NNPadGradient>(table, "MPSNNPadGradient").made_of<>();
  OldDescribing<NNSlice>(table, "MPSNNSlice")
      .property("source_feature_channel_offset", &NNSlice::source_feature_channel_offset,
                &NNSlice::set_source_feature_channel_offset)
      .property("source_feature_channel_max_count", &NNSlice::source_feature_channel_max_count,
                &NNSlice::set_source_feature_channel_max_count)
      .made_of<>();
  OldDescribing<NNConcatenation>(table, "MPSNNConcatenation")
      .property("makes_temporary_images", &NNConcatenation::makes_temporary_images)
      .made_of<>();
}

template <class K>
void describe_softmax(KernelTable& table, const char* kind, bool logarithm) {
  OldDescribing<K>(table, kind).made_by([logarithm](const Device& device, const KernelArguments&) {
    return std::make_shared<K>(device, logarithm);
  });
}

}  // namespace

void describe_filters(KernelTable& table) {
  describe_neurons(table);
  describe_pooling_pair(table, "MPSCNNPoolingMax", CNNPoolingType::kMax);
  describe_pooling_pair(table, "MPSCNNPoolingAverage", CNNPoolingType::kAverage);
  describe_pooling_pair(table, "MPSCNNPoolingL2Norm", CNNPoolingType::kL2Norm);
  describe_pooling_pair(table, "MPSCNNDilatedPoolingMax", CNNPoolingType::kDilatedMax);
  describe_softmax<CNNSoftMax>(table, "MPSCNNSoftMax", false);
  describe_softmax<CNNSoftMax>(table, "MPSCNNLogSoftMax", true);
  describe_softmax<CNNSoftMaxGradient>(table, "MPSCNNSoftMaxGradient", false);
  describe_softmax<CNNSoftMaxGradient>(table, "MPSCNNLogSoftMaxGradient", true);
  describe_dropout<CNNDropout>(table, "MPSCNNDropout");
  describe_dropout<CNNDropoutGradient>(table, "MPSCNNDropoutGradient");
  describe_sizes(table);
  describe_moves(table);
}

}  // namespace traingraph::mps
