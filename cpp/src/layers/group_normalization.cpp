// The group normalization layer: row norm over the channels of each group, then gamma and beta per
// channel.
#include <traingraph/group_normalization.h>

#include <traingraph/describe.h>
#include <traingraph/errors.h>

#include "layers/description/describe_normalization.h"
#include "layers/description/sample.h"
#include "layers/normalization.h"

namespace traingraph {
namespace {

constexpr const char* kGroupNorm = "GroupNorm";

}  // namespace

GroupNormalization::GroupNormalization(std::int64_t channels, std::int64_t groups, TensorPtr beta,
                                       TensorPtr gamma, float variance_epsilon)
    : Normalization(kGroupNorm, std::move(beta), std::move(gamma), variance_epsilon),
      channels_(channels),
      groups_(groups) {
  normalization::check_channels(kGroupNorm, channels);
  if (groups < 1 || channels % groups != 0) {
    throw InvalidArgument("[GroupNorm] expected a number of groups that divides " +
                          std::to_string(channels) + " channels but got " + std::to_string(groups));
  }
  normalization::check_per_channel(kGroupNorm, beta_.tensor, "beta", channels);
  normalization::check_per_channel(kGroupNorm, gamma_.tensor, "gamma", channels);
}

std::string GroupNormalization::description() const {
  return "GroupNorm " + std::to_string(channels_) + " in " + std::to_string(groups_) + " groups";
}

// x (N, C, …) → y of its shape; beta and gamma are (C).
void GroupNormalization::emit(Emitter& e) const {
  normalization::expect_channels(e, channels_);
  const ir::Type x = e.type(0);
  const std::int64_t count = x.elements() / (x.shape[0] * groups_);
  const ir::ValueId rows =
      ops::reshape(e.graph, e.sources[0], {x.shape[0], groups_, count}, x.batched);
  const ir::RowNormAttributes attributes{2, static_cast<double>(variance_epsilon_)};
  const ir::NodeId node = ops::apply(e.graph, ir::Op::row_norm, attributes, {rows});
  const ir::ValueId y = ops::reshape(e.graph, e.graph.node(node).outputs[0], x.shape, x.batched);
  Shape per_channel(x.shape.size(), 1);
  per_channel[1] = channels_;
  e.result(normalization::affine(e, y, gamma_, beta_, per_channel));
}

const ClassDescription& GroupNormalization::class_description() {
  using Self = GroupNormalization;
  static const ClassDescription description =
      Describing<Self, Layer>("MLCGroupNormalizationLayer",
                              "(x - mean) / sqrt(variance + epsilon) * gamma + beta, with the "
                              "statistics of groups of channels.")
          .property("feature_channel_count", &Self::channels, "C.")
          .property("group_count", &Self::groups, "The number of groups of channels.")
          .optional_parameter("beta", &Self::beta, "The shift, or None.")
          .optional_parameter("gamma", &Self::gamma, "The factor, or None.")
          .property("variance_epsilon", &Self::variance_epsilon,
                    "The number added to the variance.")
          .form({channels_argument(),
                 argument<std::int64_t>("group_count", "G, which divides C.", &kOneOrMore),
                 beta_argument(), gamma_argument(), epsilon_argument()},
                [](const Given& given) {
                  return std::make_shared<Self>(
                      given.get<std::int64_t>("feature_channel_count"),
                      given.get<std::int64_t>("group_count"), given.get<TensorPtr>("beta"),
                      given.get<TensorPtr>("gamma"), given.get<float>("variance_epsilon"));
                })
          .text(
              "Shapes: (N, C, …) to the same; beta and gamma have C elements. Types: "
              "floating-point "
              "numbers. Formula: mean and biased variance are those of C / G neighbouring channels "
              "of one sample, over all that follows. They are the same in training and inference. "
              "Gradient: reads the source; with x^ = (x - mean) / sqrt(variance + epsilon) and g = "
              "dy * gamma it is (g - mean of g - x^ * mean of g x^) / sqrt(variance + epsilon). "
              "Errors: ShapeError for a source of another number of channels and parameters of "
              "other sizes, ValueError for groups that do not divide C and a number outside its "
              "range. Source: "
              "developer.apple.com/documentation/mlcompute/mlcgroupnormalizationlayer.")
          .sample([](DataType t) {
            const auto one = [t] { return sample_parameter({1, 2, 1, 1}, t); };
            return LayerSample{std::make_shared<Self>(2, 1, one(), one()), {{{2, 2, 2, 2}, t}}};
          });
  return description;
}

}  // namespace traingraph
