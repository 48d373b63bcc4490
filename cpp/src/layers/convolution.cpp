#include <traingraph/convolution.h>
#include <traingraph/errors.h>

#include "ir/extents.h"
#include "layers/checks.h"
#include "layers/window.h"

namespace traingraph {
namespace {

// Depthwise is one group per source channel.
std::int64_t groups_of(const ConvolutionDescriptor& d) {
  return d.type == ConvolutionType::kDepthwise ? d.input_feature_channel_count : d.group_count;
}

// (O, C / groups, kh, kw)
Shape weights_shape(const ConvolutionDescriptor& d) {
  return {d.output_feature_channel_count, d.input_feature_channel_count / groups_of(d),
          d.kernel_height, d.kernel_width};
}

[[noreturn]] void refuse_convolution(const std::string& text) {
  throw InvalidArgument("[Convolution] " + text);
}

ConvolutionDescriptor checked(const ConvolutionDescriptor& d) {
  if (d.type == ConvolutionType::kTransposed) {
    throw Unsupported("[Convolution] transposed convolution: this version has none");
  }
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
  if (d.group_count > 1) text += " groups " + std::to_string(d.group_count);
  return text;
}

// x (N, C, H, W) → y (N, O, P, Q) with weights (O, C / groups, kh, kw), bias (1, O, 1, 1).
void Convolution::emit(Emitter& e) const {
  e.expect_sources(1);
  const ConvolutionDescriptor& d = descriptor();
  const std::int64_t in = d.input_feature_channel_count, out = d.output_feature_channel_count;
  const Shape& shape = e.type(0).shape;
  if (shape.size() != 4 || shape[1] != in) {
    e.fail_shape("expected a source (N, " + std::to_string(in) + ", H, W) but got " +
                 to_string(shape));
  }
  ir::ConvolutionAttributes attributes;
  attributes.window = resolve_window(window_of(d), shape[2], shape[3]);
  attributes.groups = groups_of(d);
  const ir::ValueId weights = e.parameter(weights_tensor(), weights_shape(d));
  ir::ValueId y =
      ops::apply1(e.graph, ir::Op::convolution, std::move(attributes), {e.sources[0], weights});
  // The sum is an op of its own, so that fusion joins it with whatever follows.
  if (biases_tensor() != nullptr) {
    y = ops::binary(e.graph, ir::Scalar::add, y, e.parameter(biases_tensor(), {1, out, 1, 1}));
  }
  e.result(y);
}

}  // namespace traingraph
