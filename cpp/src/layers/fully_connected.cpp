// The fully connected layer: one matrix product with the weights, over the last axis or over images
// of one pixel, and a bias.
#include <traingraph/convolution.h>
#include <traingraph/describe.h>
#include <traingraph/errors.h>

#include "layers/checks.h"
#include "layers/description/describe_weighted_layer.h"

namespace traingraph {
namespace {

ConvolutionDescriptor described(std::int64_t inputs, std::int64_t outputs) {
  ConvolutionDescriptor descriptor;
  descriptor.input_feature_channel_count = inputs;
  descriptor.output_feature_channel_count = outputs;
  return descriptor;
}

const ConvolutionDescriptor& with_channels(const ConvolutionDescriptor& d) {
  const std::int64_t in = d.input_feature_channel_count, out = d.output_feature_channel_count;
  if (in >= 1 && out >= 1) return d;
  throw InvalidArgument("[FullyConnected] expected 1 or more channels but got " +
                        std::to_string(in) + " → " + std::to_string(out));
}

TensorPtr own_weights(const ConvolutionDescriptor& d) {
  const std::int64_t in = with_channels(d).input_feature_channel_count;
  const std::int64_t out = d.output_feature_channel_count;
  return Tensor::random(TensorDescriptor({out, in}), RandomInitializerType::kGlorotUniform, in,
                        out);
}

TensorPtr own_biases(const ConvolutionDescriptor& d, bool with_biases) {
  if (!with_biases) return nullptr;
  return Tensor::filled(TensorDescriptor({with_channels(d).output_feature_channel_count}), 0);
}

}  // namespace

FullyConnected::FullyConnected(TensorPtr weights, TensorPtr biases, ConvolutionDescriptor d)
    : WeightedLayer("FullyConnected", with_channels(d), std::move(weights), std::move(biases)) {
  const std::int64_t in = d.input_feature_channel_count, out = d.output_feature_channel_count;
  expect_elements(*this, "weights", weights_tensor(), {out, in});
  expect_elements(*this, "biases", biases_tensor(), {out});
}

FullyConnected::FullyConnected(ConvolutionDescriptor descriptor, bool with_biases)
    : FullyConnected(own_weights(descriptor), own_biases(descriptor, with_biases), descriptor) {}

FullyConnected::FullyConnected(std::int64_t inputs, std::int64_t outputs, bool with_biases)
    : FullyConnected(described(inputs, outputs), with_biases) {}

std::string FullyConnected::description() const {
  return "FullyConnected " + std::to_string(descriptor().input_feature_channel_count) + " → " +
         std::to_string(descriptor().output_feature_channel_count);
}

// x (…, C) or (N, C, 1, 1); y = x Wᵀ + b with W (O, C).
void FullyConnected::emit(Emitter& e) const {
  e.expect_sources(1);
  expect_floating(e);
  const std::int64_t in = descriptor().input_feature_channel_count;
  const std::int64_t out = descriptor().output_feature_channel_count;
  const ir::Type source = e.type(0);
  const Shape& shape = source.shape;
  const bool image = shape.size() == 4 && shape[1] == in && shape[2] == 1 && shape[3] == 1;
  if (shape.empty() || (!image && shape.back() != in)) {
    e.fail_shape("expected a source (…, " + std::to_string(in) + ") or (N, " + std::to_string(in) +
                 ", 1, 1) but got " + to_string(shape));
  }
  const std::int64_t rows = source.elements() / in;
  // Axis 0 of a vector has its features.
  const bool batched = source.batched && shape.size() > 1;
  const ir::ValueId x = ops::reshape(e.graph, e.sources[0], {rows, in}, batched);
  const ir::ValueId w = e.parameter(weights_tensor(), {out, in});
  ir::ValueId y = ops::matmul(e.graph, x, w, false, true);
  if (biases_tensor() != nullptr) {
    y = ops::binary(e.graph, ir::Scalar::add, y, e.parameter(biases_tensor(), {out}));
  }
  Shape result = shape;
  if (image) {
    result[1] = out;
  } else {
    result.back() = out;
  }
  e.result(ops::reshape(e.graph, y, std::move(result), batched));
}

const ClassDescription& FullyConnected::class_description() {
  static const ClassDescription description = [] {
    Describing<FullyConnected, Layer> described("MLCFullyConnectedLayer",
                                                "x Wᵀ + b on the last axis.");
    describe_weighted_layer(described);
    described
        .text(
            "Without weights the layer makes its own: Glorot-uniform with real fans, biases zero. "
            "Shapes: (…, C) to (…, O), or (N, C, 1, 1) to (N, O, 1, 1); weights O * C elements "
            "row-major, biases O. Gradient: reads the source and the weights. Errors: ValueError.")
        .sample([](DataType t) { return weighted_sample<FullyConnected>({1, 1}, {2, 1}, t); });
    return ClassDescription(described);
  }();
  return description;
}

}  // namespace traingraph
