// The instance normalization layer: row norm over each channel of a sample, with optional running
// statistics.
#include <traingraph/instance_normalization.h>

#include <traingraph/describe.h>
#include <traingraph/errors.h>

#include "layers/description/describe_normalization.h"
#include "layers/description/sample.h"
#include "layers/normalization.h"
#include "layers/real_rows.h"

namespace traingraph {
namespace {

constexpr const char* kInstanceNorm = "InstanceNorm";

}  // namespace

InstanceNormalization::InstanceNormalization(std::int64_t channels, TensorPtr mean,
                                             TensorPtr variance, TensorPtr beta, TensorPtr gamma,
                                             float variance_epsilon, float momentum)
    : RunningNormalization(kInstanceNorm, channels, std::move(mean), std::move(variance),
                           std::move(beta), std::move(gamma), variance_epsilon, momentum) {
  if ((mean_ == nullptr) == (variance_ == nullptr)) return;
  throw InvalidArgument("[InstanceNorm] expected mean and variance together but got one of them");
}

std::string InstanceNormalization::description() const {
  return "InstanceNorm " + std::to_string(channels_);
}

// x (N, C, …) → y of its shape; every parameter is (C).
void InstanceNormalization::emit(Emitter& e) const {
  normalization::expect_channels(e, channels_);
  const auto epsilon = static_cast<double>(variance_epsilon_);
  if (normalization::uses_running(e, mean_, variance_)) {
    return e.result(normalization::by_running(e, mean_, variance_, gamma_, beta_, epsilon));
  }
  const ir::Type x = e.type(0);
  const std::int64_t samples = x.shape[0], count = x.elements() / (samples * channels_);
  const ir::ValueId rows =
      ops::reshape(e.graph, e.sources[0], {samples, channels_, count}, x.batched);
  const ir::NodeId node =
      ops::apply(e.graph, ir::Op::row_norm, ir::RowNormAttributes{2, epsilon}, {rows});
  const std::vector<ir::ValueId> results = e.graph.node(node).outputs;
  const auto move = [&](const TensorPtr& running, ir::ValueId statistics) {
    const ir::Type summed = e.graph.type(statistics);
    const ir::ValueId sum =
        ops::reduce(e.graph, ir::ReduceKind::sum, real_rows(e.lowering, statistics), {0});
    const ir::ValueId mean = mean_of_rows(e.lowering, sum, summed, 1, static_cast<double>(samples));
    normalization::move_running(e, running, ops::reshape(e.graph, mean, {channels_}),
                                static_cast<double>(momentum_));
  };
  if (e.training() && mean_ != nullptr) {
    move(mean_, results[1]);
    move(variance_, results[3]);
  }
  Shape per_channel(x.shape.size(), 1);
  per_channel[1] = channels_;
  e.result(normalization::affine(e, ops::reshape(e.graph, results[0], x.shape, x.batched), gamma_,
                                 beta_, per_channel));
}

const ClassDescription& InstanceNormalization::class_description() {
  using Self = InstanceNormalization;
  static const ClassDescription description =
      describe_running<Self>("MLCInstanceNormalizationLayer",
                             "(x - mean) / sqrt(variance + epsilon) * gamma + beta, with the "
                             "statistics of each channel of each sample.",
                             ", or None")
          .form({channels_argument(), beta_argument(), gamma_argument(), epsilon_argument(),
                 momentum_argument()},
                running_layer<Self>)
          .text(
              "Shapes: (N, C, …) to the same; parameters have C elements. Types: floating-point "
              "numbers. Formula: mean and biased variance are those of one channel of one sample. "
              "With mean and variance inference normalizes by these, and training moves them: "
              "running = momentum * running + (1 - momentum) * mean over the samples of the "
              "instances' means and variances. Without, inference is as training. Gradient: reads "
              "the source; with x^ = (x - mean) / sqrt(variance + epsilon) and g = dy * gamma it "
              "is "
              "(g - mean of g - x^ * mean of g x^) / sqrt(variance + epsilon). Errors: ShapeError "
              "for a source of another number of channels and parameters of other sizes, "
              "ValueError "
              "for one of mean and variance and a number outside its range. Source: "
              "developer.apple.com/documentation/mlcompute/mlcinstancenormalizationlayer.")
          .sample([](DataType t) {
            const auto one = [t] { return sample_parameter({1, 1, 1, 1}, t); };
            return LayerSample{std::make_shared<Self>(1, one(), one(), one(), one()),
                               {{{2, 1, 2, 2}, t}}};
          });
  return description;
}

}  // namespace traingraph
