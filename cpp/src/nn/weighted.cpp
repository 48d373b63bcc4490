// Blocks with weights over features and images, and what they are drawn from.
#include <algorithm>
#include <cmath>
#include <utility>

#include <traingraph/convolution.h>

#include "nn/layer_block.h"

namespace traingraph::nn {
namespace {

// Uniform within ±limit.
TensorPtr uniform(const Shape& shape, double limit) {
  TensorPtr tensor = Tensor::random(TensorDescriptor(shape), RandomInitializerType::kUniform);
  auto* values = static_cast<float*>(tensor->data().bytes);
  const auto bound = static_cast<float>(limit);
  std::for_each(values, values + element_count(shape),
                [bound](float& value) { value = (2 * value - 1) * bound; });
  return tensor;
}

// What the options say of weights and biases. Weights by themselves are He-uniform before ReLU: the
// variance of what follows stays. Elsewhere they have a sixth of that variance: logits begin small,
// and what is normalized has steps that are large beside its weights.
template <class L, class Options>
LayerPtr weighted(const TensorPtr& x, const ConvolutionDescriptor& d, const Options& options,
                  bool before_rectifier, const Shape& weights, const Shape& biases) {
  const auto per_kernel = static_cast<double>(element_count(weights));
  const double fan_in = per_kernel / static_cast<double>(weights[0]);
  const double fan_out = per_kernel / static_cast<double>(weights[1]);
  const TensorPtr kernel =
      options.weights_init.is_given()
          ? options.weights_init.make(weights, fan_in, fan_out)
          : uniform(weights, std::sqrt((before_rectifier ? 6.0 : 1.0) / fan_in));
  TensorPtr bias;
  if (options.bias) {
    bias = like_source(x, options.bias_init.is_given()
                              ? options.bias_init.make(biases, fan_in, fan_out)
                              : Tensor::filled(TensorDescriptor(biases), 0));
  }
  return std::make_shared<L>(like_source(x, kernel), std::move(bias), d);
}

template <class Options>
void expect_bias(const std::string& text, const Options& options) {
  if (options.bias || !options.bias_init.is_given()) return;
  throw InvalidArgument("[" + text + "] expected no bias_init without a bias");
}

// The layer, and the activation that the options name.
Block activated(Block block, const std::string& activation) {
  if (activation.empty()) return block;
  Block both = sequential({block, activation});
  return {block.text(), both, both.kind()};
}

Block dense_block(const std::string& text, std::optional<std::int64_t> inputs, std::int64_t outputs,
                  const DenseOptions& options) {
  expect_some(text, "inputs", inputs.value_or(1));
  expect_some(text, "outputs", outputs);
  expect_bias(text, options);
  const auto make = [=](const GraphPtr& graph, const TensorPtr& x, bool before_rectifier) {
    const Shape& shape = x->descriptor().shape;
    const bool is_image = shape.size() == 4;
    if (shape.size() < 2 || (is_image && (shape[2] != 1 || shape[3] != 1))) {
      refuse_source(text, "(N, C), (N, T, C) or (N, C, 1, 1)", x,
                    shape.size() > 2 ? "; put flatten() before it" : "");
    }
    ConvolutionDescriptor d;
    d.input_feature_channel_count = is_image ? shape[1] : shape.back();
    d.output_feature_channel_count = outputs;
    if (inputs.value_or(d.input_feature_channel_count) != d.input_feature_channel_count) {
      refuse_source(text, "(…, " + std::to_string(*inputs) + ")", x);
    }
    return graph->node(
        weighted<FullyConnected>(x, d, options, before_rectifier,
                                 {outputs, d.input_feature_channel_count}, {outputs}),
        x);
  };
  return activated(layer_block(text, make), options.activation);
}

Block conv2d_block(const std::string& text, std::optional<std::int64_t> inputs,
                   std::int64_t outputs, const Size& kernel, const Conv2dOptions& options,
                   ConvolutionType type = ConvolutionType::kStandard) {
  expect_some(text, "inputs", inputs.value_or(1));
  expect_some(text, "outputs", outputs);
  expect_bias(text, options);
  expect_some(text, "groups", options.groups);
  expect_some(text, "rows and columns of the kernel", smallest(kernel));
  expect_some(text, "rows and columns of the stride", smallest(options.stride));
  expect_some(text, "rows and columns of the dilation", smallest(options.dilation));
  const auto make = [=](const GraphPtr& graph, const TensorPtr& x, bool before_rectifier) {
    const Shape& shape = x->descriptor().shape;
    if (shape.size() != 4 || inputs.value_or(shape[1]) != shape[1]) {
      refuse_source(text, "(N, " + (inputs ? std::to_string(*inputs) : "C") + ", H, W)", x);
    }
    ConvolutionDescriptor d;
    d.type = type;
    d.kernel_height = kernel.y;
    d.kernel_width = kernel.x;
    d.input_feature_channel_count = shape[1];
    d.output_feature_channel_count = outputs;
    d.group_count = options.groups;
    d.stride_y = options.stride.y;
    d.stride_x = options.stride.x;
    d.dilation_y = options.dilation.y;
    d.dilation_x = options.dilation.x;
    d.padding_policy = options.padding.policy;
    d.padding_y = options.padding.sizes.y;
    d.padding_x = options.padding.sizes.x;
    if (shape[1] % options.groups != 0 || outputs % options.groups != 0) {
      refuse_source(
          text, "and outputs of a multiple of " + std::to_string(options.groups) + " channels", x);
    }
    const bool transposed = type == ConvolutionType::kTransposed;
    const std::int64_t first = transposed ? shape[1] : outputs;
    const std::int64_t second = (transposed ? outputs : shape[1]) / options.groups;
    return graph->node(
        weighted<Convolution>(x, d, options, before_rectifier, {first, second, kernel.y, kernel.x},
                              {1, outputs, 1, 1}),
        x);
  };
  return activated(layer_block(text, make), options.activation);
}

// Images of one row: (N, T, C) to (N, C, 1, T), and back.
Block conv1d_block(const std::string& text, std::optional<std::int64_t> inputs,
                   std::int64_t outputs, std::int64_t kernel, Conv2dOptions options) {
  options.stride.y = options.dilation.y = 1;
  options.padding.sizes.y = 0;
  const std::string activation = std::exchange(options.activation, "");
  const Block convolution = conv2d_block(text, inputs, outputs, {1, kernel}, options);
  const auto make = [=](const GraphPtr& graph, const TensorPtr& x, bool before_rectifier) {
    const Shape shape = x->descriptor().shape;
    if (shape.size() != 3 || inputs.value_or(shape[2]) != shape[2]) {
      refuse_source(text, "(N, T, " + (inputs ? std::to_string(*inputs) : "C") + ")", x);
    }
    const TensorPtr channels = graph->transpose({0, 2, 1}, x);
    const TensorPtr result = convolution(
        graph, graph->reshape({shape[0], shape[2], 1, shape[1]}, channels), before_rectifier);
    const std::int64_t steps = result->descriptor().shape[3];
    return graph->transpose({0, 2, 1}, graph->reshape({shape[0], outputs, steps}, result));
  };
  return activated(layer_block(text, make), activation);
}

}  // namespace

Block dense(std::int64_t outputs, DenseOptions options) {
  return dense_block(call_text("dense", outputs), std::nullopt, outputs, options);
}

Block dense(std::int64_t inputs, std::int64_t outputs, DenseOptions options) {
  return dense_block(call_text("dense", inputs, outputs), inputs, outputs, options);
}

Block conv2d(std::int64_t outputs, Size kernel, Conv2dOptions options) {
  return conv2d_block(call_text("conv2d", outputs, kernel), std::nullopt, outputs, kernel, options);
}

Block conv2d(std::int64_t inputs, std::int64_t outputs, Size kernel, Conv2dOptions options) {
  return conv2d_block(call_text("conv2d", inputs, outputs, kernel), inputs, outputs, kernel,
                      options);
}

Block conv2d_transpose(std::int64_t outputs, Size kernel, Conv2dOptions options) {
  return conv2d_block(call_text("conv2d_transpose", outputs, kernel), std::nullopt, outputs, kernel,
                      options, ConvolutionType::kTransposed);
}

Block conv2d_transpose(std::int64_t inputs, std::int64_t outputs, Size kernel,
                       Conv2dOptions options) {
  return conv2d_block(call_text("conv2d_transpose", inputs, outputs, kernel), inputs, outputs,
                      kernel, options, ConvolutionType::kTransposed);
}

Block conv1d(std::int64_t outputs, std::int64_t kernel, Conv2dOptions options) {
  return conv1d_block(call_text("conv1d", outputs, kernel), std::nullopt, outputs, kernel,
                      std::move(options));
}

Block conv1d(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel,
             Conv2dOptions options) {
  return conv1d_block(call_text("conv1d", inputs, outputs, kernel), inputs, outputs, kernel,
                      std::move(options));
}

}  // namespace traingraph::nn
