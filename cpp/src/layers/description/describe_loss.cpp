// What losses are made of, and their documents.
#include <traingraph/describe.h>
#include <traingraph/loss.h>

namespace traingraph {
namespace {

LossDescriptor loss_of(LossType type, const Given& given) {
  LossDescriptor result;
  result.type = type;
  result.reduction = given.get<ReductionType>("reduction_type");
  const auto set = [&given](float& to, const char* name) {
    if (given.find(name) != nullptr) to = given.get<float>(name);
  };
  set(result.weight, "weight");
  set(result.label_smoothing, "label_smoothing");
  set(result.epsilon, "epsilon");
  set(result.delta, "delta");
  result.class_count = given.get<std::int64_t>("class_count");
  return result;
}

// What losses have beside the common arguments.
Argument label_smoothing_argument() {
  return argument("label_smoothing", 0.0f,
                  "The share of each label that is spread over the classes.", &kShareBelowOne);
}
Argument class_count_argument() {
  return optional_argument<std::int64_t>("class_count", "None: taken from the labels.", &kLimit);
}
Argument weight_argument() { return argument("weight", 1.0f, "The factor of the whole."); }
Argument weights_argument() {
  return optional_argument<TensorPtr>("weights", "One factor per value, or None.");
}
Argument reduction_argument() {
  Argument reduction =
      argument("reduction_type", ReductionType::kMean, "NONE, SUM or MEAN of the values.");
  reduction.accepted = "\"none\", \"sum\", \"mean\"";
  return reduction;
}
Argument epsilon_argument() {
  return argument("epsilon", 1e-7f, "The number that LOG adds under its logarithms.");
}
Argument delta_argument() {
  return argument("delta", 1.0f, "The error above which HUBER is linear.", &kPositive);
}

// One loss that Apple offers by name, with the arguments it has beside the common ones.
struct LossFactory {
  const char* name;
  LossType type;
  std::vector<Argument> own;
  const char* text;
};

const std::vector<LossFactory>& factories() {
  static const std::vector<LossFactory> table = {
      {"softmax_cross_entropy",
       LossType::kSoftmaxCrossEntropy,
       {label_smoothing_argument(), class_count_argument()},
       "-sum(t * log_softmax(y)), one value per sample. Integer labels have no class axis; -1 "
       "ignores a row. Gradient: softmax(y) * sum(t) - t."},
      {"categorical_cross_entropy",
       LossType::kCategoricalCrossEntropy,
       {label_smoothing_argument(), class_count_argument()},
       "-sum(t * log(y)) of probabilities y, one value per sample. Integer labels have no class "
       "axis; -1 ignores a row. Labels are not smoothed. Gradient: -t / y, 0 where t is 0."},
      {"sigmoid_cross_entropy",
       LossType::kSigmoidCrossEntropy,
       {label_smoothing_argument()},
       "max(y, 0) - y * t + log(1 + exp(-|y|)). Gradient: sigmoid(y) - t."},
      {"log",
       LossType::kLog,
       {epsilon_argument()},
       "-t * log(y + epsilon) - (1 - t) * log(1 - y + epsilon). Gradient: -t / (y + epsilon) + "
       "(1 - t) / (1 - y + epsilon)."},
      {"huber_loss",
       LossType::kHuber,
       {delta_argument()},
       "e**2 / 2 for |e| <= delta, else delta * (|e| - delta / 2), e = y - t."},
      {"mean_absolute_error", LossType::kMeanAbsoluteError, {}, "|y - t|. Gradient: sign(y - t)."},
      {"mean_squared_error", LossType::kMeanSquaredError, {}, "(y - t)**2. Gradient: 2 * (y - t)."},
      {"hinge_loss",
       LossType::kHinge,
       {},
       "max(1 - (2 * t - 1) * y, 0) for labels 0 and 1. Gradient: 1 - 2 * t where that is above "
       "0."},
      {"cosine_distance",
       LossType::kCosineDistance,
       {},
       "1 - sum(y * t) along axis 1, of vectors of length 1; one value per sample. Gradient: -t."},
  };
  return table;
}

ClassDescription described_loss() {
  Describing<Loss, Layer> loss("MLCLossLayer", "Measures a prediction against its labels.");
  loss.property("descriptor", &Loss::descriptor, "The function.")
      .optional_property("weights", &Loss::weights, "One factor per value, or None.")
      .form({argument<LossDescriptor>("descriptor", "The function."), weights_argument()},
            [](const Given& given) {
              return std::make_shared<Loss>(given.get<LossDescriptor>("descriptor"),
                                            given.get<TensorPtr>("weights"));
            })
      .text(
          "Shapes: labels have the prediction's, extents of 1 aside; weights have one value for "
          "each that reduction NONE would give, or, where classes are summed over axis 1, one per "
          "label. Types: floating-point numbers of one type; of softmax and categorical cross "
          "entropy integer classes too. MEAN divides by the number of values. Gradient: that of "
          "the function, times the weights; what has the weight or label 0 adds exactly 0. Errors: "
          "ValueError for other shapes or a class out of range, TypeError for other types. Source: "
          "developer.apple.com/documentation/mlcompute/mlclosslayer.")
      .sample([](DataType t) {
        return LayerSample{std::make_shared<Loss>(LossDescriptor{}), {{{2, 2}, t}, {{2, 2}, t}}};
      });
  for (const LossFactory& factory : factories()) {
    std::vector<Argument> arguments{reduction_argument()};
    arguments.insert(arguments.end(), factory.own.begin(), factory.own.end());
    std::vector<Argument> with_tensor = arguments;
    arguments.push_back(weight_argument());
    with_tensor.push_back(weights_argument());
    loss.factory(factory.name, factory.text, {arguments, with_tensor},
                 [type = factory.type](const Given& given) {
                   return std::make_shared<Loss>(loss_of(type, given),
                                                 given.get<TensorPtr>("weights"));
                 });
  }
  return loss;
}

}  // namespace

const ClassDescription& LossDescriptor::class_description() {
  using D = LossDescriptor;
  static const ClassDescription description =
      Describing<D>("MLCLossDescriptor", "The function of a loss layer.")
          .property("loss_type", &D::type, "The function.")
          .property("reduction_type", &D::reduction, "NONE, SUM or MEAN of the values.")
          .property("weight", &D::weight, "The factor of the whole.")
          .property("label_smoothing", &D::label_smoothing,
                    "The share of each label that is spread over the classes.")
          .property(
              "class_count",
              [](const D& self) {
                return self.class_count == 0 ? std::nullopt : std::optional(self.class_count);
              },
              "None: taken from the labels.")
          .property("epsilon", &D::epsilon, "The number that LOG adds under its logarithms.")
          .property("delta", &D::delta, "The error above which HUBER is linear.")
          .form({argument<LossType>("type", "The function."), reduction_argument(),
                 weight_argument(), label_smoothing_argument(), class_count_argument(),
                 epsilon_argument(), delta_argument()},
                [](const Given& given) { return loss_of(given.get<LossType>("type"), given); })
          .text("class_count is taken from the labels unless it is given.");
  return description;
}

const ClassDescription& Loss::class_description() {
  static const ClassDescription description = described_loss();
  return description;
}

}  // namespace traingraph
