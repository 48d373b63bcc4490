// Optimizers, their descriptor, and vectors.
#include <traingraph/mps/optimizer.h>

#include "mps/description/describe_kernel.h"

namespace traingraph::mps {
namespace {

constexpr const char* kLearningRate = "learning_rate";
constexpr const char* kDescriptor = "optimizer_descriptor";
constexpr const char* kDescriptorText = "The numbers that all optimizers share.";
constexpr const char* kDeviceText = "The device that runs it.";
constexpr Range kTimeSteps{0, static_cast<double>(Optimizer::kMostTimeSteps - 1),
                           "from 0 to 2**53 - 1"};
constexpr const char* kEpsilonText = "Added to the root; below 1.2e-38 it counts as that.";

// Python calls the penalty by a name of its own.
NNRegularizationType regularization(const OptimizerDescriptor& descriptor) {
  return static_cast<NNRegularizationType>(descriptor.regularization_type);
}

ClassDescription optimizer_descriptor() {
  using D = NNOptimizerDescriptor;
  ClassDescription described =
      Describing<D>("MPSNNOptimizerDescriptor", "The numbers that all optimizers share.")
          .settable_field(kLearningRate, &D::learning_rate,
                          "The length of a step: finite, also negative.", &kFinite)
          .required()
          .settable_field("gradient_rescale", &D::gradient_rescale,
                          "A factor of gradients: finite.", &kFinite)
          .settable_field("apply_gradient_clipping", &D::applies_gradient_clipping,
                          "Whether gradients are clipped.")
          .settable_field("gradient_clip_max", &D::gradient_clip_max,
                          "The largest gradient; may be infinite.", &kAnyNumber)
          .settable_field("gradient_clip_min", &D::gradient_clip_min,
                          "The smallest gradient: gradient_clip_max or less when an optimizer "
                          "takes it; may be infinite.",
                          &kAnyNumber)
          .settable_field(
              "regularization_type", regularization,
              [](D& self, NNRegularizationType value) {
                self.regularization_type = static_cast<RegularizationType>(value);
              },
              "The penalty on weights.")
          .settable_field("regularization_scale", &D::regularization_scale,
                          "The penalty's factor: finite, also negative.", &kFinite)
          .made_of_fields(
              "Clipping comes before rescaling. Errors: a number outside the range that its "
              "property states.")
          .not_copied();
  Form form = described.forms.front();
  form.arguments.front().name = "with_learning_rate";
  form.make = [make = form.make](const Given& given) {
    Given renamed;
    for (const auto& [name, value] : given.values()) {
      renamed.add(name == "with_learning_rate" ? kLearningRate : name, value);
    }
    return make(renamed);
  };
  described.factories.push_back({kDescriptor, "The same as the constructor.", {std::move(form)}});
  return described;
}

// --- vectors -------------------------------------------------------------------------------------

constexpr const char* kVectorsText = "The number of rows: one.";
constexpr const char* kBytesText = "The size of the row. Units: bytes.";

VectorDescriptor descriptor_of(const Vector& vector) {
  return {vector.length(), {vector.data_type()}};
}

template <class T>
std::int64_t one_row(const T&) {
  return 1;
}

ClassDescription vector_descriptor() {
  using D = VectorDescriptor;
  return Describing<D>("MPSVectorDescriptor", "A row's size.")
      .factory("vector_descriptor", "Types: float32, or float64 for the reference implementation.",
               {{argument<std::int64_t>("with_length", "Elements.", &kOneOrMore),
                 argument("data_type", ElementType{}, "The type of an element.")}},
               [](const Given& given) {
                 return D{given.get<std::int64_t>("with_length"),
                          given.get<ElementType>("data_type")};
               })
      .settable("length", &D::length, "Elements.")
      .in(kOneOrMore)
      .settable("data_type", &D::data_type, "The type of an element.")
      .property("vectors", one_row<D>, kVectorsText)
      .property("vector_bytes", &D::vector_bytes, kBytesText)
      .class_function("vector_bytes_for_length",
                      [](std::int64_t length, const ElementType& type) {
                        return D{length, type}.vector_bytes();
                      },
                      "How long a row is, with nothing behind it. Units: bytes. Errors: below 1.",
                      {{"length", "Elements."}, {"data_type", "The type of an element."}})
      .not_copied();
}

// --- kernels -------------------------------------------------------------------------------------

ClassDescription all_optimizers() {
  using D = OptimizerDescriptor;
  Describing<NNOptimizer, Kernel> described("MPSNNOptimizer", "An update rule that is encoded.");
  described.property(kLearningRate, &NNOptimizer::learning_rate, "The length of a step.")
      .function("set_learning_rate", &NNOptimizer::set_learning_rate,
                "For encodings from now on; compiles nothing. Errors: a rate that is not finite.",
                {{"new_learning_rate", "The length of a step: finite, also negative."}})
      .settable("apply_gradient_clipping", &NNOptimizer::apply_gradient_clipping,
                &NNOptimizer::set_apply_gradient_clipping, "Whether gradients are clipped.")
      .part_of_argument();
  const auto number = [&](const char* name, auto get, const char* text) {
    described.property(
        name, [get](const NNOptimizer& kernel) { return std::invoke(get, kernel.descriptor()); },
        text);
  };
  number("gradient_rescale", &D::gradient_rescale, "A factor of gradients.");
  number("gradient_clip_max", &D::gradient_clip_max, "The largest gradient.");
  number("gradient_clip_min", &D::gradient_clip_min, "The smallest gradient.");
  number("regularization_type", regularization, "The penalty on weights.");
  number("regularization_scale", &D::regularization_scale, "The penalty's factor.");
  return described;
}

// `defaults`: what the form without a descriptor gives the constructor between device and
// descriptor.
template <class K, class... Defaults>
Describing<K, Kernel, NNOptimizer> describe_optimizer(const char* kind, const char* summary,
                                                      Defaults... defaults) {
  auto described = describe_kernel<K, NNOptimizer>(kind, summary);
  described.form({argument<Device>("device", kDeviceText),
                  argument<float>(kLearningRate, "The length of a step.", &kFinite)},
                 [=](const Given& given) {
                   OptimizerDescriptor descriptor;
                   descriptor.learning_rate = given.get<float>(kLearningRate);
                   return std::make_shared<K>(given.get<Device>("device"), defaults..., descriptor);
                 });
  return described;
}

NNOptimizerDescriptor whole_descriptor(const NNOptimizer& kernel) {
  return NNOptimizerDescriptor(kernel.descriptor());
}

ClassDescription gradient_descent() {
  using K = NNOptimizerStochasticGradientDescent;
  constexpr const char* kMomentum = "momentum_scale";
  constexpr const char* kMomentumText = "The decay rate of the momentum.";
  constexpr const char* kOldSpelling = "use_nestrov_momentum";
  constexpr const char* kOldSpellingText = "The same, in Apple's deprecated spelling.";
  return describe_optimizer<K>(
             "MPSNNOptimizerStochasticGradientDescent",
             "m = momentum m + lr g, w -= m; Nesterov: m = momentum m + g, w -= lr (g + momentum "
             "m).",
             0.0f, false)
      .argument(kMomentum, &K::momentum_scale, kMomentumText)
      .in(kShare)
      .argument("use_nesterov_momentum", &K::use_nesterov_momentum,
                "Whether the momentum is Nesterov's.")
      .kept_argument(kDescriptor, whole_descriptor, kDescriptorText)
      .made_of<Device, float, bool, NNOptimizerDescriptor>(
          "Shapes: vectors of as many elements as the values. Vectors: one of momentum unless "
          "momentum_scale is 0.")
      .form({argument<Device>("device", kDeviceText),
             argument<float>(kMomentum, kMomentumText, &kShare),
             argument<bool>(kOldSpelling, kOldSpellingText),
             argument<NNOptimizerDescriptor>(kDescriptor, kDescriptorText)},
            [](const Given& given) {
              return std::make_shared<K>(given.get<Device>("device"), given.get<float>(kMomentum),
                                         given.get<bool>(kOldSpelling),
                                         given.get<NNOptimizerDescriptor>(kDescriptor));
            })
      .property(kOldSpelling, &K::use_nesterov_momentum, kOldSpellingText);
}

ClassDescription rms_prop() {
  using K = NNOptimizerRMSProp;
  return describe_optimizer<K>("MPSNNOptimizerRMSProp",
                               "s = decay s + (1 - decay) g^2, w -= lr g / (sqrt(s) + epsilon).",
                               0.9, 1e-8f)
      .argument("decay", &K::decay, "The decay rate of the mean of squares.")
      .in(kShare)
      .argument("epsilon", &K::epsilon, kEpsilonText)
      .in(kNotNegative)
      .kept_argument(kDescriptor, whole_descriptor, kDescriptorText)
      .made_of<Device, double, float, NNOptimizerDescriptor>(
          "Shapes: vectors of as many elements as the values. Without a descriptor decay is 0.9 "
          "and "
          "epsilon 1e-8.");
}

ClassDescription adam() {
  using K = NNOptimizerAdam;
  constexpr const char* kTimeStep = "time_step";
  constexpr const char* kTimeStepText =
      "The time step of the last encoding; the next one uses one more.";
  return describe_optimizer<K>("MPSNNOptimizerAdam",
                               "w -= lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon).",
                               0.9, 0.999, 1e-8f, 0)
      .argument("beta1", &K::beta1, "The decay rate of the momentum.")
      .in(kShareBelowOne)
      .argument("beta2", &K::beta2, "The decay rate of the velocity.")
      .in(kShareBelowOne)
      .argument("epsilon", &K::epsilon, kEpsilonText)
      .in(kNotNegative)
      .kept_argument(kTimeStep, &K::time_step, kTimeStepText)
      .in(kTimeSteps)
      .kept_argument(kDescriptor, whole_descriptor, kDescriptorText)
      .made_of<Device, double, double, float, std::int64_t, NNOptimizerDescriptor>(
          "Shapes: vectors of as many elements as the values. Without a descriptor beta1 is 0.9, "
          "beta2 0.999, epsilon 1e-8 and time_step 0. Each "
          "encoding first raises the time step by one.")
      .settable(kTimeStep, &K::time_step, &K::set_time_step, kTimeStepText)
      .in(kTimeSteps);
}

}  // namespace

const ClassDescription& Vector::class_description() {
  static const ClassDescription description =
      Describing<Vector, Vector>("MPSVector", "A row of numbers on a device.")
          .form(
              {argument<Device>("device", "The device that holds it."),
               argument<VectorDescriptor>("descriptor", "The length and the type of an element.")},
              [](const Given& given) {
                const auto size = given.get<VectorDescriptor>("descriptor");
                return std::make_shared<Vector>(given.get<Device>("device"), size.length,
                                                size.data_type.type);
              })
          .form(
              {argument<std::shared_ptr<Buffer>>("buffer", "The numbers, which it shares."),
               argument<VectorDescriptor>("descriptor", "The length and the type of an element.")},
              [](const Given& given) {
                const auto size = given.get<VectorDescriptor>("descriptor");
                return std::make_shared<Vector>(given.get<std::shared_ptr<Buffer>>("buffer"),
                                                size.length, size.data_type.type);
              })
          .text("Zeros, or the numbers in a buffer.")
          .property("device", &Vector::device, "The device that holds it.")
          .property("length", &Vector::length, "Elements.")
          .property("vectors", one_row<Vector>, kVectorsText)
          .property(
              "vector_bytes",
              [](const Vector& vector) { return descriptor_of(vector).vector_bytes(); }, kBytesText)
          .property("data", &Vector::data, "The bytes.")
          .property(
              "data_type", [](const Vector& vector) { return descriptor_of(vector).data_type; },
              "The type of an element.");
  return description;
}

void describe_optimizers(Classes& classes) {
  classes.insert(classes.end(), {all_optimizers(), gradient_descent(), rms_prop(), adam()});
}

void describe_optimizer_values(Classes& classes) {
  classes.insert(classes.end(), {optimizer_descriptor(), vector_descriptor()});
}

}  // namespace traingraph::mps
