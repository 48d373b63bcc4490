// Checks and ops that the normalization layers share: running statistics, gamma and beta, and
// inference by running statistics.
#include "layers/normalization.h"
#include "ir/number_text.h"

#include <cmath>

#include <traingraph/errors.h>

namespace traingraph::normalization {

using ir::Scalar;
using ir::ValueId;

namespace {

[[noreturn]] void refuse(const std::string& kind, const std::string& text) {
  throw InvalidArgument("[" + kind + "] expected " + text);
}

// One number per channel, beside (N, C, …).
Shape broadcastable(const Shape& source) {
  Shape shape(source.size(), 1);
  shape[1] = source[1];
  return shape;
}

}  // namespace

void check_channels(const std::string& kind, std::int64_t channels) {
  if (channels >= 1) return;
  refuse(kind, "1 channel or more but got " + std::to_string(channels));
}

void check_epsilon(const std::string& kind, float epsilon) {
  if (epsilon >= 0 && std::isfinite(epsilon)) return;
  refuse(kind, "a finite epsilon of 0 or more but got " + short_text(epsilon));
}

void check_momentum(const std::string& kind, float momentum) {
  if (momentum >= 0 && momentum <= 1) return;
  refuse(kind, "a momentum from 0 to 1 but got " + short_text(momentum));
}

void check_per_channel(const std::string& kind, const TensorPtr& tensor, const char* what,
                       std::int64_t channels) {
  if (tensor == nullptr || element_count(tensor->descriptor().shape) == channels) return;
  throw ShapeError("[" + kind + "] expected " + what + " with " + std::to_string(channels) +
                   " elements, one per channel, but got " + to_string(tensor->descriptor().shape));
}

void expect_channels(Emitter& e, std::int64_t channels) {
  e.expect_sources(1);
  const Shape shape = e.type(0).shape;
  if (shape.size() >= 2 && shape[1] == channels) return;
  e.fail_shape("expected a source (N, " + std::to_string(channels) + ", …) but got " +
               to_string(shape));
}

void move_running(Emitter& e, const TensorPtr& running, ValueId batch, double momentum) {
  const Shape shape = e.graph.type(batch).shape;
  const ValueId next = ops::binary(e.graph, Scalar::multiply_add, e.parameter(running, shape),
                                   batch, momentum, 1 - momentum);
  e.write(running, next);
}

ValueId affine(Emitter& e, ValueId x, const TensorParameter& gamma, const TensorParameter& beta,
               const Shape& shape) {
  ir::ScalarList list;
  std::vector<ValueId> inputs = {x};
  int result = 0;
  list.inputs = 1 + (gamma.tensor != nullptr ? 1 : 0) + (beta.tensor != nullptr ? 1 : 0);
  const auto add = [&](const TensorParameter& p, Scalar function) {
    if (p.tensor == nullptr) return;
    result = list.add(function, result, static_cast<int>(inputs.size()));
    inputs.push_back(e.parameter(p.tensor, shape));
  };
  add(gamma, Scalar::multiply);
  add(beta, Scalar::add);
  if (inputs.size() == 1) return x;
  list.results = {result};
  return ops::elementwise(e.graph, std::move(list), inputs)[0];
}

bool uses_running(const Emitter& e, const TensorPtr& mean, const TensorPtr& variance) {
  if (mean == nullptr) return false;
  const std::set<const Tensor*>& frozen = e.lowering.frozen;
  return !e.training() || frozen.contains(mean.get()) || frozen.contains(variance.get());
}

ValueId by_running(Emitter& e, const TensorPtr& mean, const TensorPtr& variance,
                   const TensorParameter& gamma, const TensorParameter& beta, double epsilon) {
  const Shape source = e.type(0).shape;
  const Shape per_channel = {source[1]};
  // y = scale x + shift: what depends on the channel alone is computed once per channel.
  ir::ScalarList list;
  std::vector<ValueId> inputs = {e.parameter(variance, per_channel),
                                 e.parameter(mean, per_channel)};
  for (const TensorParameter* p : {&gamma, &beta}) {
    if (p->tensor != nullptr) inputs.push_back(e.parameter(p->tensor, per_channel));
  }
  list.inputs = static_cast<int>(inputs.size());
  int scale = list.add(Scalar::affine, 0, -1, 1, epsilon);
  scale = list.add(Scalar::rsqrt, scale);
  if (gamma.tensor != nullptr) scale = list.add(Scalar::multiply, scale, 2);
  int shift = list.add(Scalar::multiply, 1, scale);
  shift = beta.tensor != nullptr ? list.add(Scalar::subtract, list.inputs - 1, shift)
                                 : list.add(Scalar::negate, shift);
  list.results = {scale, shift};
  const std::vector<ValueId> found = ops::elementwise(e.graph, std::move(list), inputs);
  const Shape beside = broadcastable(source);
  ir::ScalarList apply{3, {{Scalar::multiply, 0, 1, 0, 0}, {Scalar::add, 3, 2, 0, 0}}, {4}};
  return ops::elementwise(e.graph, std::move(apply),
                          {e.sources[0], ops::reshape(e.graph, found[0], beside),
                           ops::reshape(e.graph, found[1], beside)})[0];
}

}  // namespace traingraph::normalization

namespace traingraph {

Normalization::Normalization(const char* kind, TensorPtr beta, TensorPtr gamma,
                             float variance_epsilon)
    : Layer(kind), variance_epsilon_(variance_epsilon) {
  normalization::check_epsilon(kind, variance_epsilon);
  beta_.tensor = std::move(beta);
  gamma_.tensor = std::move(gamma);
}

std::vector<TensorParameter*> Normalization::parameters() {
  std::vector<TensorParameter*> present;
  for (TensorParameter* p : {&beta_, &gamma_}) {
    if (p->tensor != nullptr) present.push_back(p);
  }
  return present;
}

std::vector<std::pair<std::string, TensorPtr>> Normalization::named_parameters() const {
  return {{"beta", beta_.tensor}, {"gamma", gamma_.tensor}};
}

RunningNormalization::RunningNormalization(const char* kind, std::int64_t channels, TensorPtr mean,
                                           TensorPtr variance, TensorPtr beta, TensorPtr gamma,
                                           float variance_epsilon, float momentum)
    : Normalization(kind, std::move(beta), std::move(gamma), variance_epsilon),
      channels_(channels),
      mean_(std::move(mean)),
      variance_(std::move(variance)),
      momentum_(momentum) {
  normalization::check_channels(kind, channels);
  normalization::check_momentum(kind, momentum);
  for (const auto& [name, tensor] : RunningNormalization::named_parameters()) {
    normalization::check_per_channel(kind, tensor, name.c_str(), channels);
  }
}

std::vector<std::pair<std::string, TensorPtr>> RunningNormalization::named_parameters() const {
  return {
      {"mean", mean_}, {"variance", variance_}, {"beta", beta_.tensor}, {"gamma", gamma_.tensor}};
}

}  // namespace traingraph
