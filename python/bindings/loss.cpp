#include "bindings.h"
#include "signature.h"

namespace traingraph::python {
namespace {

// One loss that Apple offers by name, with the parameter it has beside the common ones.
struct LossFactory {
  const char* name;
  LossType type;
  const char* parameters;
  const char* doc;
};

constexpr const char* kClasses = "label_smoothing: float = 0.0, class_count: int | None = None, ";

constexpr LossFactory kLossFactories[] = {
    {"softmax_cross_entropy", LossType::kSoftmaxCrossEntropy, kClasses,
     "-sum(t * log_softmax(y)), one value per sample. Integer labels have no class axis; -1 "
     "ignores a row. Gradient: softmax(y) * sum(t) - t."},
    {"categorical_cross_entropy", LossType::kCategoricalCrossEntropy, kClasses,
     "-sum(t * log(y)) of probabilities y, one value per sample. Gradient: -t / y."},
    {"sigmoid_cross_entropy", LossType::kSigmoidCrossEntropy, "label_smoothing: float = 0.0, ",
     "max(y, 0) - y * t + log(1 + exp(-|y|)). Gradient: sigmoid(y) - t."},
    {"log", LossType::kLog, "epsilon: float = 1e-7, ",
     "-t * log(y + epsilon) - (1 - t) * log(1 - y + epsilon)."},
    {"huber_loss", LossType::kHuber, "delta: float = 1.0, ",
     "e**2 / 2 for |e| <= delta, else delta * (|e| - delta / 2), e = y - t."},
    {"mean_absolute_error", LossType::kMeanAbsoluteError, "", "|y - t|. Gradient: sign(y - t)."},
    {"mean_squared_error", LossType::kMeanSquaredError, "", "(y - t)**2. Gradient: 2 * (y - t)."},
    {"hinge_loss", LossType::kHinge, "", "max(1 - (2 * t - 1) * y, 0) for labels 0 and 1."},
    {"cosine_distance", LossType::kCosineDistance, "",
     "1 - sum(y * t), one value per sample. Gradient: -t."},
};

LossDescriptor loss_descriptor_of(LossType type, const Arguments& arguments) {
  LossDescriptor result;
  result.type = type;
  result.reduction = arguments.get<ReductionType>("reduction_type");
  result.weight = arguments.optional<float>("weight").value_or(result.weight);
  result.label_smoothing =
      arguments.optional<float>("label_smoothing").value_or(result.label_smoothing);
  result.class_count = arguments.optional<std::int64_t>("class_count").value_or(0);
  result.epsilon = arguments.optional<float>("epsilon").value_or(result.epsilon);
  result.delta = arguments.optional<float>("delta").value_or(result.delta);
  return result;
}

void bind_loss_descriptor(py::module_& module) {
  using Self = LossDescriptor;
  auto cls = BoundClass<Self>(module, "MLCLossDescriptor", "The function of a loss layer.");
  def_init(cls,
           {"type: MLCLossType | str, reduction_type: MLCReductionType | str, "
            "weight: float = 1.0, label_smoothing: float = 0.0, class_count: int | None = None, "
            "epsilon: float = 1e-7, delta: float = 1.0"},
           "class_count is taken from the labels unless it is given.",
           [](const Arguments& arguments) {
             return loss_descriptor_of(arguments.get<LossType>("type"), arguments);
           });
  cls.def_property_readonly(
      "loss_type", [](const Self& self) { return self.type; }, "The function.");
  cls.def_property_readonly(
      "reduction_type", [](const Self& self) { return self.reduction; },
      "NONE, SUM or MEAN of the values.");
  cls.def_readonly("weight", &Self::weight, "The factor of the whole.");
  cls.def_readonly("label_smoothing", &Self::label_smoothing,
                   "How much of each label is spread over the classes.");
  cls.def_property_readonly(
      "class_count",
      [](const Self& self) {
        return self.class_count == 0 ? std::nullopt : std::optional(self.class_count);
      },
      "None: taken from the labels.");
  cls.def_readonly("epsilon", &Self::epsilon, "What LOG adds under its logarithms.");
  cls.def_readonly("delta", &Self::delta, "Where HUBER becomes linear.");
  def_copy(cls, [](const Self& self) { return self; });
  cls.def("__repr__", [](const Self& self) {
    return "<MLCLossDescriptor " + py::cast<std::string>(py::cast(self.type).attr("name")) + " " +
           py::cast<std::string>(py::cast(self.reduction).attr("name")) + ">";
  });
}

}  // namespace

void bind_loss(py::module_& module) {
  bind_loss_descriptor(module);
  auto cls = BoundClass<Loss, Layer, std::shared_ptr<Loss>>(
      module, "MLCLossLayer", "Measures a prediction against its labels.");
  def_init(cls, {"descriptor: MLCLossDescriptor, weights: MLCTensor | None = None"},
           "Shapes: weights have one value for each that reduction NONE would give.",
           [](const Arguments& arguments) {
             return std::make_shared<Loss>(arguments.get<LossDescriptor>("descriptor"),
                                           arguments.nullable<TensorPtr>("weights"));
           });
  for (const LossFactory& factory : kLossFactories) {
    const std::string common =
        std::string("reduction_type: MLCReductionType | str, ") + factory.parameters;
    def_factory(cls, factory.name, "MLCLossLayer",
                {common + "weight: float = 1.0", common + "weights: MLCTensor | None = None"},
                factory.doc, [&factory](const Arguments& arguments) {
                  return std::make_shared<Loss>(loss_descriptor_of(factory.type, arguments),
                                                arguments.nullable<TensorPtr>("weights"));
                });
  }
  cls.def_property_readonly(
      "descriptor", [](const Loss& self) { return self.descriptor(); }, "The function.");
  cls.def_property_readonly("weights", &Loss::weights, "One factor per value, or None.");
}

}  // namespace traingraph::python
