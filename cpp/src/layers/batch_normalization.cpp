#include <traingraph/batch_normalization.h>

#include <cmath>

#include <traingraph/describe.h>
#include <traingraph/errors.h>

#include "layers/emitter.h"
#include "layers/sample.h"

namespace traingraph {
namespace {

using ir::Scalar;
using ir::ValueId;

[[noreturn]] void refuse(const std::string& text) {
  throw InvalidArgument("[BatchNormalization] " + text);
}

// Raises unless the tensor has one element per channel.
void check_per_channel(const TensorPtr& tensor, const char* what, std::int64_t channels) {
  const Shape& shape = tensor->descriptor().shape;
  if (element_count(shape) == channels) return;
  throw ShapeError("[BatchNormalization] expected " + std::string(what) + " with " +
                   std::to_string(channels) + " elements, one per channel, but got " +
                   to_string(shape));
}

TensorPtr own(std::int64_t channels, double value) {
  return Tensor::filled(TensorDescriptor({1, channels, 1, 1}), value);
}

// running = momentum * running + (1 - momentum) * batch, both (C).
void move_running(Emitter& e, const TensorPtr& tensor, ValueId batch, double momentum) {
  const Shape shape = e.graph.type(batch).shape;
  const ValueId next = ops::binary(e.graph, Scalar::multiply_add, e.parameter(tensor, shape), batch,
                                   momentum, 1 - momentum);
  // A write names the parameter itself, which may be held in another shape than (C).
  const ValueId held = e.lowering.parameter_values.at(tensor.get());
  e.write(held, ops::reshape(e.graph, next, e.graph.type(held).shape));
}

}  // namespace

BatchNormalization::BatchNormalization(std::int64_t channels, TensorPtr mean, TensorPtr variance,
                                       TensorPtr beta, TensorPtr gamma, float variance_epsilon,
                                       float momentum)
    : Layer("BatchNormalization"),
      channels_(channels),
      mean_(std::move(mean)),
      variance_(std::move(variance)),
      variance_epsilon_(variance_epsilon),
      momentum_(momentum) {
  if (channels < 1) refuse("expected 1 channel or more but got " + std::to_string(channels));
  if (mean_ == nullptr || variance_ == nullptr) {
    refuse("expected a mean and a variance tensor but got none");
  }
  if (!(variance_epsilon >= 0 && std::isfinite(variance_epsilon))) {
    refuse("expected a finite epsilon of 0 or more but got " + std::to_string(variance_epsilon));
  }
  if (!(momentum >= 0 && momentum <= 1)) {
    refuse("expected a momentum from 0 to 1 but got " + std::to_string(momentum));
  }
  check_per_channel(mean_, "mean", channels);
  check_per_channel(variance_, "variance", channels);
  if (beta != nullptr) check_per_channel(beta, "beta", channels);
  if (gamma != nullptr) check_per_channel(gamma, "gamma", channels);
  beta_.tensor = std::move(beta);
  gamma_.tensor = std::move(gamma);
}

BatchNormalization::BatchNormalization(std::int64_t channels, float variance_epsilon,
                                       float momentum)
    : BatchNormalization(channels, own(channels, 0), own(channels, 1), own(channels, 0),
                         own(channels, 1), variance_epsilon, momentum) {}

std::vector<TensorParameter*> BatchNormalization::parameters() {
  std::vector<TensorParameter*> result;
  if (beta_.tensor != nullptr) result.push_back(&beta_);
  if (gamma_.tensor != nullptr) result.push_back(&gamma_);
  return result;
}

std::vector<std::pair<std::string, TensorPtr>> BatchNormalization::named_parameters() const {
  return {
      {"mean", mean_}, {"variance", variance_}, {"beta", beta_.tensor}, {"gamma", gamma_.tensor}};
}

std::string BatchNormalization::description() const {
  return "BatchNormalization " + std::to_string(channels_);
}

// x (N, C, …) → y (N, C, …); every parameter is (C).
void BatchNormalization::emit(Emitter& e) const {
  e.expect_sources(1);
  const ir::Type x = e.type(0);
  if (x.rank() < 2 || x.shape[1] != channels_) {
    e.fail_shape("expected a source (N, " + std::to_string(channels_) + ", …) but got " +
                 to_string(x.shape));
  }
  const Shape per_channel = {channels_};
  // Running numbers that are frozen are what the layer normalizes by, as in inference.
  const std::set<const Tensor*>& frozen = e.lowering.frozen;
  if (e.training() && !frozen.contains(mean_.get()) && !frozen.contains(variance_.get())) {
    auto parameter_or = [&](const TensorParameter& p, double fill) {
      if (p.tensor != nullptr) return e.parameter(p.tensor, per_channel);
      return ops::filled(e.graph, ir::Type{x.data_type, per_channel, false}, fill);
    };
    ir::BatchNormAttributes attributes;
    attributes.epsilon = static_cast<double>(variance_epsilon_);
    const ValueId gamma = parameter_or(gamma_, 1);
    const ValueId beta = parameter_or(beta_, 0);
    const ir::NodeId node =
        ops::apply(e.graph, ir::Op::batch_norm, std::move(attributes), {e.sources[0], gamma, beta});
    const std::vector<ValueId> results = e.graph.node(node).outputs;
    const double momentum = static_cast<double>(momentum_);
    move_running(e, mean_, results[1], momentum);
    move_running(e, variance_, results[3], momentum);
    e.result(results[0]);
    return;
  }
  // y = scale x + shift: what depends on the channel alone is computed once per channel.
  ir::ScalarList list;
  std::vector<ValueId> inputs = {e.parameter(variance_, per_channel),
                                 e.parameter(mean_, per_channel)};
  for (const TensorParameter* p : {&gamma_, &beta_}) {
    if (p->tensor != nullptr) inputs.push_back(e.parameter(p->tensor, per_channel));
  }
  list.inputs = static_cast<int>(inputs.size());
  int scale = list.add(Scalar::affine, 0, -1, 1, static_cast<double>(variance_epsilon_));
  scale = list.add(Scalar::rsqrt, scale);
  if (gamma_.tensor != nullptr) scale = list.add(Scalar::multiply, scale, 2);
  int shift = list.add(Scalar::multiply, 1, scale);
  shift = beta_.tensor != nullptr ? list.add(Scalar::subtract, list.inputs - 1, shift)
                                  : list.add(Scalar::negate, shift);
  list.results = {scale, shift};
  const std::vector<ValueId> affine = ops::elementwise(e.graph, std::move(list), inputs);
  Shape stretched(x.shape.size(), 1);
  stretched[1] = channels_;
  ir::ScalarList apply{3, {{Scalar::multiply, 0, 1, 0, 0}, {Scalar::add, 3, 2, 0, 0}}, {4}};
  e.result(ops::elementwise(e.graph, std::move(apply),
                            {e.sources[0], ops::reshape(e.graph, affine[0], stretched),
                             ops::reshape(e.graph, affine[1], stretched)})[0]);
}

const ClassDescription& BatchNormalization::class_description() {
  using Self = BatchNormalization;
  const auto channels = argument<std::int64_t>("feature_channel_count", "C.", &kOneOrMore);
  const auto epsilon =
      argument("variance_epsilon", 1e-5f, "What is added to the variance.", &kNotNegative);
  const auto momentum = argument("momentum", 0.99f, "What the running statistics keep.", &kShare);
  static const ClassDescription description =
      Describing<Self, Layer>("MLCBatchNormalizationLayer",
                              "(x - mean) / sqrt(variance + epsilon) * gamma + beta per channel.")
          .property("feature_channel_count", &Self::channels, "C.")
          .property("mean", &Self::mean, "The running mean.")
          .property("variance", &Self::variance, "The running variance.")
          .optional_parameter("beta", &Self::beta, "What is added, or None.")
          .optional_parameter("gamma", &Self::gamma, "The factor, or None.")
          .property("variance_epsilon", &Self::variance_epsilon, "What is added to the variance.")
          .property("momentum", &Self::momentum, "What the running statistics keep.")
          .form(
              {channels, argument<TensorPtr>("mean", "The running mean."),
               argument<TensorPtr>("variance", "The running variance."),
               optional_argument<TensorPtr>("beta", "What is added; None adds nothing."),
               optional_argument<TensorPtr>("gamma", "The factor; None is 1."), epsilon, momentum},
              [](const Given& given) {
                return std::make_shared<Self>(
                    given.get<std::int64_t>("feature_channel_count"), given.get<TensorPtr>("mean"),
                    given.get<TensorPtr>("variance"), given.get<TensorPtr>("beta"),
                    given.get<TensorPtr>("gamma"), given.get<float>("variance_epsilon"),
                    given.get<float>("momentum"));
              })
          .form({channels, epsilon, momentum},
                [](const Given& given) {
                  return std::make_shared<Self>(given.get<std::int64_t>("feature_channel_count"),
                                                given.get<float>("variance_epsilon"),
                                                given.get<float>("momentum"));
                })
          .text(
              "Without mean and variance the layer makes its own parameters. Shapes: (N, C, …) to "
              "the same; parameters (1, C, 1, 1). Training uses the batch's biased statistics and "
              "moves the running ones: running = momentum * running + (1 - momentum) * batch. "
              "Gradient: reads the source and the batch's statistics. Errors: a source of another "
              "number of channels, parameters of other sizes, a number outside its range.")
          .sample([](DataType t) {
            const auto one = [t] { return sample_parameter({1, 1, 1, 1}, t); };
            return LayerSample{std::make_shared<Self>(1, one(), one(), one(), one()),
                               {{{2, 1, 2, 2}, t}}};
          });
  return description;
}

}  // namespace traingraph
