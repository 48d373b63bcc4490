// The convolution layer: standard, grouped, depthwise and transposed. A transposed one is the data
// gradient of a convolution.
#include <traingraph/convolution.h>
#include <traingraph/describe.h>
#include <traingraph/errors.h>

#include "ir/extents.h"
#include "layers/checks.h"
#include "layers/description/describe_weighted_layer.h"
#include "layers/description/describe_window.h"
#include "layers/window.h"

namespace traingraph {
namespace {

// Depthwise is one group per source channel.
std::int64_t groups_of(const ConvolutionDescriptor& d) {
  return d.type == ConvolutionType::kDepthwise ? d.input_feature_channel_count : d.group_count;
}

bool is_transposed(const ConvolutionDescriptor& d) {
  return d.type == ConvolutionType::kTransposed;
}

// (O, C / groups, kh, kw); of a transposed convolution (C, O / groups, kh, kw), the weights of the
// convolution that it is the adjoint of.
Shape weights_shape(const ConvolutionDescriptor& d) {
  std::int64_t from = d.input_feature_channel_count, to = d.output_feature_channel_count;
  if (is_transposed(d)) std::swap(from, to);
  return {to, from / groups_of(d), d.kernel_height, d.kernel_width};
}

[[noreturn]] void refuse_convolution(const std::string& text) {
  throw InvalidArgument("[Convolution] " + text);
}

ConvolutionDescriptor checked(const ConvolutionDescriptor& d) {
  check_window(window_of(d), "Convolution");
  const std::int64_t in = d.input_feature_channel_count, out = d.output_feature_channel_count;
  if (in < 1 || out < 1 || d.group_count < 1) {
    refuse_convolution("expected 1 or more channels and groups but got " + std::to_string(in) +
                       " → " + std::to_string(out) + " channels in " +
                       std::to_string(d.group_count) + " groups");
  }
  if (d.type == ConvolutionType::kDepthwise && d.group_count != 1 && d.group_count != in) {
    refuse_convolution("expected as many groups as source channels, " + std::to_string(in) +
                       ", for a depthwise convolution but got " + std::to_string(d.group_count));
  }
  const std::int64_t groups = groups_of(d);
  if (in % groups != 0 || out % groups != 0) {
    refuse_convolution("expected channels divisible by " + std::to_string(groups) +
                       " groups but got " + std::to_string(in) + " → " + std::to_string(out));
  }
  return d;
}

TensorPtr own_kernels(const ConvolutionDescriptor& descriptor) {
  const ConvolutionDescriptor d = checked(descriptor);
  const std::int64_t per_group = d.input_feature_channel_count / groups_of(d);
  const std::int64_t out = d.output_feature_channel_count;
  const Shape shape = {1, ir::product(out, per_group), d.kernel_height, d.kernel_width};
  const std::int64_t area = ir::product(d.kernel_height, d.kernel_width);
  return Tensor::random(TensorDescriptor(shape), RandomInitializerType::kGlorotUniform,
                        ir::product(per_group, area), ir::product(out / groups_of(d), area));
}

TensorPtr own_kernel_biases(const ConvolutionDescriptor& descriptor, bool with_biases) {
  if (!with_biases) return nullptr;
  const std::int64_t out = checked(descriptor).output_feature_channel_count;
  return Tensor::filled(TensorDescriptor({1, out, 1, 1}), 0);
}

}  // namespace

Convolution::Convolution(TensorPtr weights, TensorPtr biases, ConvolutionDescriptor d)
    : WeightedLayer("Convolution", checked(d), std::move(weights), std::move(biases)) {
  expect_elements(*this, "weights", weights_tensor(), weights_shape(d));
  expect_elements(*this, "biases", biases_tensor(), {1, d.output_feature_channel_count, 1, 1});
}

Convolution::Convolution(ConvolutionDescriptor descriptor, bool with_biases)
    : Convolution(own_kernels(descriptor), own_kernel_biases(descriptor, with_biases), descriptor) {
}

std::string Convolution::description() const {
  const ConvolutionDescriptor& d = descriptor();
  std::string text = "Convolution " + std::to_string(d.input_feature_channel_count) + " → " +
                     std::to_string(d.output_feature_channel_count) + " " + to_string(window_of(d));
  if (d.type == ConvolutionType::kDepthwise) return text + " depthwise";
  if (is_transposed(d)) text += " transposed";
  if (d.group_count > 1) text += " groups " + std::to_string(d.group_count);
  return text;
}

namespace {

// (N, O, P, Q) of a transposed convolution of x: the source of a convolution whose result is x.
Shape transposed_shape(const Emitter& e, const ConvolutionDescriptor& d, const Shape& x) {
  const WindowDescription window = window_of(d);
  const Shape y = {x[0], d.output_feature_channel_count, transposed_extent(window, 0, x[2]),
                   transposed_extent(window, 1, x[3])};
  if (y[2] < 1 || y[3] < 1) {
    e.fail_shape("expected a result of 1 or more rows and columns but got " + to_string(y) +
                 " of a source " + to_string(x));
  }
  if (!ir::can_be(y, e.type(0).data_type)) {
    e.fail_shape("expected a result of at most " + std::to_string(ir::kMostBytes) +
                 " bytes but got " + to_string(y) + " of a source " + to_string(x));
  }
  return y;
}

}  // namespace

// x (N, C, H, W) → y (N, O, P, Q) with bias (1, O, 1, 1). A transposed convolution is the gradient
// of the data of a convolution from (P, Q) to (H, W).
void Convolution::emit(Emitter& e) const {
  e.expect_sources(1);
  expect_floating(e);
  const ConvolutionDescriptor& d = descriptor();
  const std::int64_t in = d.input_feature_channel_count, out = d.output_feature_channel_count;
  const Shape shape = e.type(0).shape;
  if (shape.size() != 4 || shape[1] != in) {
    e.fail_shape("expected a source (N, " + std::to_string(in) + ", H, W) but got " +
                 to_string(shape));
  }
  ir::ConvolutionAttributes attributes;
  attributes.groups = groups_of(d);
  if (is_transposed(d)) attributes.result_shape = transposed_shape(e, d, shape);
  const Shape& windowed = is_transposed(d) ? attributes.result_shape : shape;
  attributes.window = resolve_window(window_of(d), windowed[2], windowed[3]);
  const ir::Op op = is_transposed(d) ? ir::Op::convolution_gradient_data : ir::Op::convolution;
  const ir::ValueId weights = e.parameter(weights_tensor(), weights_shape(d));
  ir::ValueId y = ops::apply1(e.graph, op, std::move(attributes), {e.sources[0], weights});
  // The sum is an op of its own, so that fusion joins it with whatever follows.
  if (biases_tensor() != nullptr) {
    y = ops::binary(e.graph, ir::Scalar::add, y, e.parameter(biases_tensor(), {1, out, 1, 1}));
  }
  e.result(y);
}

namespace {

ClassDescription described_convolution_descriptor() {
  using D = ConvolutionDescriptor;
  using Count = std::int64_t;
  const auto inputs =
      argument<Count>("input_feature_channel_count", "Channels of the source.", &kOneOrMore);
  const auto outputs =
      argument<Count>("output_feature_channel_count", "Channels of the result.", &kOneOrMore);
  const auto height = argument<Count>("kernel_height", "Units: elements.", &kOfWindow);
  const auto set_sizes = [](D& d, const Given& given, const char* width) {
    d.input_feature_channel_count = given.get<Count>("input_feature_channel_count");
    d.output_feature_channel_count = given.get<Count>("output_feature_channel_count");
    d.kernel_height = given.get<Count>("kernel_height");
    d.kernel_width = given.get<Count>(width);
  };
  Describing<D> described("MLCConvolutionDescriptor",
                          "Channels, kernel, strides and padding of a convolution.");
  described.property("convolution_type", &D::type, "The type.")
      .property(
          "is_convolution_transpose",
          [](const D& d) { return d.type == ConvolutionType::kTransposed; },
          "Whether the type is TRANSPOSED.")
      .property(
          "uses_depthwise_convolution",
          [](const D& d) { return d.type == ConvolutionType::kDepthwise; },
          "Whether the type is DEPTHWISE.")
      .property("input_feature_channel_count", &D::input_feature_channel_count,
                "Channels of the source.")
      .property("output_feature_channel_count", &D::output_feature_channel_count,
                "Channels of the result.")
      .property("group_count", &D::group_count, "Groups of channels.");
  describe_window(described);
  described
      .form({argument("type", ConvolutionType::kStandard, "The type."),
             argument<Pair>("kernel_sizes", "(height, width).", &kOfWindow), inputs, outputs,
             argument("group_count", Count{1}, "Groups of channels.", &kOneOrMore),
             argument("strides", Pair{1, 1}, "(y, x).", &kOfWindow), dilation_argument(),
             padding_argument()},
            [](const Given& given) {
              D d;
              d.type = given.get<ConvolutionType>("type");
              d.input_feature_channel_count = given.get<Count>("input_feature_channel_count");
              d.output_feature_channel_count = given.get<Count>("output_feature_channel_count");
              d.group_count = given.get<Count>("group_count");
              set_window(d, given);
              return d;
            })
      .form({argument<Count>("transpose_with_kernel_width", "Units: elements.", &kOfWindow), height,
             inputs, outputs},
            [set_sizes](const Given& given) {
              D d;
              d.type = ConvolutionType::kTransposed;
              set_sizes(d, given, "transpose_with_kernel_width");
              return d;
            })
      .form({argument<Count>("depthwise_with_kernel_width", "Units: elements.", &kOfWindow), height,
             inputs,
             argument<Count>("channel_multiplier", "Channels of the result per one of the source.",
                             &kOneOrMore)},
            [set_sizes](const Given& given) {
              D d;
              d.type = ConvolutionType::kDepthwise;
              set_sizes(d, given, "depthwise_with_kernel_width");
              d.output_feature_channel_count = ir::product(d.input_feature_channel_count,
                                                           given.get<Count>("channel_multiplier"));
              d.group_count = d.input_feature_channel_count;
              return d;
            })
      .text("Pairs are (height, width) and (y, x).");
  return described;
}

}  // namespace

const ClassDescription& ConvolutionDescriptor::class_description() {
  static const ClassDescription description = described_convolution_descriptor();
  return description;
}

const ClassDescription& Convolution::class_description() {
  static const ClassDescription description = [] {
    Describing<Convolution, Layer> described(
        "MLCConvolutionLayer",
        "Cross-correlation over images or its adjoint, plus a bias per channel.");
    describe_weighted_layer(described);
    described
        .text(
            "Without weights the layer makes its own: Glorot-uniform with real fans, biases zero. "
            "Shapes: x (N, C, H, W) to (N, O, P, Q); weights O * C / groups * kh * kw elements in "
            "that order, biases O. TRANSPOSED is the adjoint of the convolution of that padding "
            "from O to C channels and has its weights, C * O / groups * kh * kw elements; P is H * "
            "stride of SAME, else (H - 1) * stride + (kh - 1) * dilation + 1 less the padding of "
            "both sides. Gradient: reads the source and the weights. Errors: ValueError.")
        .sample(
            [](DataType t) { return weighted_sample<Convolution>({1, 1, 1, 1}, {1, 1, 2, 2}, t); });
    return ClassDescription(described);
  }();
  return description;
}

}  // namespace traingraph
