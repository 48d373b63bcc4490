// The layer normalization layer: row norm over the last axes, then gamma and beta of their shape.
#include <traingraph/layer_normalization.h>

#include <algorithm>
#include <utility>

#include <traingraph/describe.h>
#include <traingraph/errors.h>

#include "layers/description/describe_normalization.h"
#include "layers/description/sample.h"
#include "layers/normalization.h"

namespace traingraph {
namespace {

constexpr const char* kLayerNorm = "LayerNorm";
constexpr std::size_t kMostAxes = 3;

}  // namespace

LayerNormalization::LayerNormalization(Shape normalized_shape, TensorPtr beta, TensorPtr gamma,
                                       float variance_epsilon)
    : Normalization(kLayerNorm, std::move(beta), std::move(gamma), variance_epsilon),
      normalized_shape_(std::move(normalized_shape)) {
  if (normalized_shape_.empty() || normalized_shape_.size() > kMostAxes) {
    throw InvalidArgument(
        "[LayerNorm] expected a normalized shape (W), (H, W) or (C, H, W) but got " +
        to_string(normalized_shape_));
  }
  for (std::int64_t extent : normalized_shape_) {
    if (extent >= 1) continue;
    throw InvalidArgument(
        "[LayerNorm] expected a normalized shape of extents of 1 or more but got " +
        to_string(normalized_shape_));
  }
  for (const auto& [name, tensor] :
       {std::pair{"beta", &beta_.tensor}, std::pair{"gamma", &gamma_.tensor}}) {
    if (*tensor == nullptr || (*tensor)->descriptor().shape == normalized_shape_) continue;
    throw ShapeError(std::string("[LayerNorm] expected ") + name + " of the normalized shape " +
                     to_string(normalized_shape_) + " but got " +
                     to_string((*tensor)->descriptor().shape));
  }
}

std::string LayerNormalization::description() const {
  return "LayerNorm " + to_string(normalized_shape_);
}

// x (…, normalized shape) → y of its shape.
void LayerNormalization::emit(Emitter& e) const {
  e.expect_sources(1);
  const Shape shape = e.type(0).shape;
  const std::size_t axes = normalized_shape_.size();
  if (shape.size() < axes || !std::equal(normalized_shape_.begin(), normalized_shape_.end(),
                                         shape.end() - static_cast<std::ptrdiff_t>(axes))) {
    e.fail_shape("expected a source whose last axes are " + to_string(normalized_shape_) +
                 " but got " + to_string(shape));
  }
  const ir::RowNormAttributes attributes{static_cast<int>(shape.size() - axes),
                                         static_cast<double>(variance_epsilon_)};
  const ir::NodeId node = ops::apply(e.graph, ir::Op::row_norm, attributes, {e.sources[0]});
  const ir::ValueId y = e.graph.node(node).outputs[0];
  e.result(normalization::affine(e, y, gamma_, beta_, normalized_shape_));
}

const ClassDescription& LayerNormalization::class_description() {
  using Self = LayerNormalization;
  static const ClassDescription description =
      Describing<Self, Layer>("MLCLayerNormalizationLayer",
                              "(x - mean) / sqrt(variance + epsilon) * gamma + beta, with the "
                              "statistics of the last axes.")
          .property("normalized_shape", &Self::normalized_shape, "The extents of these axes.")
          .optional_parameter("beta", &Self::beta, "The shift, or None.")
          .optional_parameter("gamma", &Self::gamma, "The factor, or None.")
          .property("variance_epsilon", &Self::variance_epsilon,
                    "The number added to the variance.")
          .form({argument<Shape>("normalized_shape", "(W), (H, W) or (C, H, W).", &kOneOrMore),
                 beta_argument(), gamma_argument(), epsilon_argument()},
                [](const Given& given) {
                  return std::make_shared<Self>(
                      given.get<Shape>("normalized_shape"), given.get<TensorPtr>("beta"),
                      given.get<TensorPtr>("gamma"), given.get<float>("variance_epsilon"));
                })
          .text(
              "Shapes: (…, normalized_shape) to the same; beta and gamma have the normalized "
              "shape. "
              "Types: floating-point numbers. Formula: mean and biased variance are those of all "
              "that one index of the axes before holds. They are the same in training and "
              "inference. Gradient: reads the source; with x^ = (x - mean) / sqrt(variance + "
              "epsilon) and g = dy * gamma it is (g - mean of g - x^ * mean of g x^) / "
              "sqrt(variance + epsilon). Errors: ShapeError for a source of other last axes and "
              "parameters of another shape, ValueError for more than three axes and a number "
              "outside its range. Source: "
              "developer.apple.com/documentation/mlcompute/mlclayernormalizationlayer.")
          .sample([](DataType t) {
            const auto one = [t] { return sample_parameter({4}, t); };
            return LayerSample{std::make_shared<Self>(Shape{4}, one(), one()), {{{2, 3, 4}, t}}};
          });
  return description;
}

}  // namespace traingraph
