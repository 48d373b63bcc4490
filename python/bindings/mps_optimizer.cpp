#include <functional>

#include "mps_bindings.h"
#include "mps_coding.h"
#include "mps_encoding.h"

namespace traingraph::python {
namespace {

using mps::NNOptimizer;
using mps::NNOptimizerAdam;
using mps::NNOptimizerRMSProp;
using mps::NNOptimizerStochasticGradientDescent;
using mps::Vector;
using mps::VectorPtr;

// MPSVectorDescriptor.
struct VectorDescriptor {
  std::int64_t length = 1;
  DataType data_type = DataType::kFloat32;
};

std::int64_t vector_bytes(std::int64_t length, DataType type) {
  const auto element = static_cast<std::int64_t>(element_bytes(type));
  if (element > 0 && length >= 1 && length <= INT64_MAX / element) return length * element;
  throw InvalidArgument(
      "[MPSVectorDescriptor] expected 1 element or more of float16, float32 or float64 but got " +
      std::to_string(length) + " of " + name(type));
}

// A descriptor or a vector: what follows from its length.
template <typename Class, typename Length, typename Type>
void def_vector_bytes(Class& cls, Length length, Type type) {
  using Self = typename Class::type;
  cls.def_property_readonly("vectors", [](const Self&) { return 1; }, "How many rows: one.");
  cls.def_property_readonly(
      "vector_bytes",
      [=](const Self& self) {
        return vector_bytes(std::invoke(length, self), std::invoke(type, self));
      },
      "Of the row. Units: bytes.");
}

// MPSNNOptimizerDescriptor, a class apart from ML Compute's.
struct MpsOptimizerDescriptor {
  OptimizerDescriptor values;
};

constexpr const char* kNNDescriptorForm =
    "learning_rate: float, gradient_rescale: float = 1.0, apply_gradient_clipping: bool = False, "
    "gradient_clip_max: float = 0.0, gradient_clip_min: float = 0.0, "
    "regularization_type: MPSNNRegularizationType | str = MPSNNRegularizationType.NONE, "
    "regularization_scale: float = 0.0";

MpsOptimizerDescriptor make_nn_descriptor(const Arguments& arguments, const char* rate) {
  MpsOptimizerDescriptor d;
  d.values.learning_rate = arguments.get<float>(rate);
  d.values.gradient_rescale = arguments.get<float>("gradient_rescale");
  d.values.applies_gradient_clipping = arguments.get<bool>("apply_gradient_clipping");
  d.values.gradient_clip_max = arguments.get<float>("gradient_clip_max");
  d.values.gradient_clip_min = arguments.get<float>("gradient_clip_min");
  d.values.regularization_type = static_cast<RegularizationType>(
      enum_value("MPSNNRegularizationType", arguments["regularization_type"]));
  d.values.regularization_scale = arguments.get<float>("regularization_scale");
  d.values.check("MPSNNOptimizerDescriptor");
  return d;
}

OptimizerDescriptor nn_descriptor_of(const Arguments& arguments) {
  if (arguments.given("optimizer_descriptor")) {
    return arguments.get<MpsOptimizerDescriptor>("optimizer_descriptor").values;
  }
  OptimizerDescriptor descriptor;
  descriptor.learning_rate = arguments.get<float>("learning_rate");
  return descriptor;
}

void bind_vectors(py::module_& module) {
  auto descriptor = BoundClass<VectorDescriptor>(module, "MPSVectorDescriptor", "A row's size.");
  def_factory(descriptor, "vector_descriptor", "MPSVectorDescriptor",
              {"with_length: int, data_type: MPSDataType | str = MPSDataType.FLOAT32"},
              "Types: float32, or float64 for the reference loops.",
              [](const Arguments& arguments) {
                return VectorDescriptor{arguments.get<std::int64_t>("with_length"),
                                        from_mps_data_type(arguments["data_type"])};
              });
  descriptor.def_readwrite("length", &VectorDescriptor::length, "Elements.");
  descriptor.def_property(
      "data_type", [](const VectorDescriptor& self) { return to_mps_data_type(self.data_type); },
      [](VectorDescriptor& self, const py::object& value) {
        self.data_type = from_mps_data_type(value);
      },
      "What an element is.");
  def_vector_bytes(descriptor, &VectorDescriptor::length, &VectorDescriptor::data_type);
  def_factory(descriptor, "vector_bytes_for_length", "int",
              {"length: int, data_type: MPSDataType | str"},
              "How long a row is, with nothing behind it. Units: bytes. Errors: below 1.",
              [](const Arguments& arguments) {
                return vector_bytes(arguments.get<std::int64_t>("length"),
                                    from_mps_data_type(arguments["data_type"]));
              });

  auto vector = BoundClass<Vector, VectorPtr>(module, "MPSVector", "A row of numbers on a device.");
  def_init(vector,
           {"device: MTLDevice | MLCDevice | str, descriptor: MPSVectorDescriptor",
            "buffer: MTLBuffer, descriptor: MPSVectorDescriptor"},
           "Zeros, or the numbers in a buffer.", [](const Arguments& arguments) {
             const auto d = arguments.get<VectorDescriptor>("descriptor");
             if (arguments.given("device")) {
               return std::make_shared<Vector>(to_mps_device(arguments["device"]), d.length,
                                               d.data_type);
             }
             return std::make_shared<Vector>(arguments.get<std::shared_ptr<mps::Buffer>>("buffer"),
                                             d.length, d.data_type);
           });
  vector.def_property_readonly("device", &Vector::device, "Where it lies.");
  vector.def_property_readonly("length", &Vector::length, "Elements.");
  def_vector_bytes(vector, &Vector::length, &Vector::data_type);
  vector.def_property_readonly("data", &Vector::data, "The bytes.");
  vector.def_property_readonly(
      "data_type", [](const Vector& self) { return to_mps_data_type(self.data_type()); },
      "What an element is.");
}

// The names of an optimizer's own vectors in its encode forms: "input_momentum" …
using SlotNames = std::vector<std::string>;

std::vector<VectorPtr> single_slots(const Arguments& arguments, const SlotNames& names) {
  std::vector<VectorPtr> slots;
  for (const std::string& name : names) {
    const std::string full = name + "_vector";
    const VectorPtr slot = arguments.nullable<VectorPtr>(full.c_str());
    if (slot != nullptr) slots.push_back(slot);
  }
  return slots;
}

std::vector<std::vector<VectorPtr>> paired_slots(const Arguments& arguments,
                                                 const SlotNames& names) {
  std::vector<std::vector<VectorPtr>> slots;
  for (const std::string& name : names) {
    const std::string full = name + "_vectors";
    if (arguments[full.c_str()].is_none()) continue;
    slots.push_back(arguments.get<std::vector<VectorPtr>>(full.c_str()));
  }
  return slots;
}

template <typename Class>
void def_encode(Class& cls, const SlotNames& names) {
  using Self = typename Class::type;
  std::string one, several;
  for (const std::string& name : names) {
    one += name + "_vector: MPSVector | None = None, ";
    several += name + "_vectors: list[MPSVector] | None = None, ";
  }
  // Arguments with a default come last.
  const std::string begin = "command_buffer: MTLCommandBuffer, ";
  const auto without_end = [](std::string text) { return text.substr(0, text.size() - 2); };
  def_method(
      cls, "encode", "None",
      {begin +
           "input_gradient_vector: MPSVector, input_values_vector: MPSVector, "
           "result_values_vector: MPSVector, " +
           without_end(one),
       begin +
           "convolution_gradient_state: MPSCNNConvolutionGradientState, "
           "convolution_source_state: MPSCNNConvolutionWeightsAndBiasesState, "
           "result_state: MPSCNNConvolutionWeightsAndBiasesState, " +
           without_end(several),
       begin +
           "batch_normalization_state: MPSCNNBatchNormalizationState, "
           "result_state: MPSCNNNormalizationGammaAndBetaState, " +
           without_end(several),
       begin +
           "batch_normalization_gradient_state: MPSCNNBatchNormalizationState, "
           "batch_normalization_source_state: MPSCNNBatchNormalizationState, "
           "result_state: MPSCNNNormalizationGammaAndBetaState, " +
           without_end(several)},
      "Encodes one update. The vectors are changed in place; lists hold one for weights or gamma "
      "and one for biases or beta. Errors: sizes that differ; a state without gradients.",
      [names](Self& self, const Arguments& a) {
        mps::CommandBuffer& buffer = command_buffer(a);
        if (a.given("input_values_vector")) {
          self.encode(buffer, a.get<VectorPtr>("input_gradient_vector"),
                      a.get<VectorPtr>("input_values_vector"), single_slots(a, names),
                      a.get<VectorPtr>("result_values_vector"));
        } else if (a.given("convolution_gradient_state")) {
          using Weights = std::shared_ptr<mps::CNNConvolutionWeightsAndBiasesState>;
          self.encode(buffer,
                      *a.get<std::shared_ptr<mps::CNNConvolutionGradientState>>(
                          "convolution_gradient_state"),
                      *a.get<Weights>("convolution_source_state"), paired_slots(a, names),
                      *a.get<Weights>("result_state"));
        } else {
          const bool apart = a.given("batch_normalization_gradient_state");
          const auto state = [&a, apart](const char* name) {
            return a.get<std::shared_ptr<mps::CNNBatchNormalizationState>>(
                apart ? name : "batch_normalization_state");
          };
          self.encode(
              buffer, *state("batch_normalization_gradient_state"),
              *state("batch_normalization_source_state"), paired_slots(a, names),
              *a.get<std::shared_ptr<mps::CNNNormalizationGammaAndBetaState>>("result_state"));
        }
      });
}

void bind_nn_base(py::module_& module) {
  using Descriptor = MpsOptimizerDescriptor;
  auto descriptor =
      BoundClass<Descriptor>(module, "MPSNNOptimizerDescriptor", "What every optimizer has.");
  def_init(
      descriptor, {kNNDescriptorForm},
      "Clipping comes before rescaling. Errors: a number outside the range that its property "
      "states.",
      [](const Arguments& arguments) { return make_nn_descriptor(arguments, "learning_rate"); });
  def_factory(descriptor, "optimizer_descriptor", "MPSNNOptimizerDescriptor",
              {std::string("with_") + kNNDescriptorForm}, "The same as the constructor.",
              [](const Arguments& arguments) {
                return make_nn_descriptor(arguments, "with_learning_rate");
              });
  const auto field = [&descriptor](const char* name, auto member, const char* doc) {
    using T = std::remove_reference_t<decltype(std::declval<OptimizerDescriptor>().*member)>;
    descriptor.def_property(
        name, [member](const Descriptor& self) { return self.values.*member; },
        [member](Descriptor& self, T value) {
          OptimizerDescriptor changed = self.values;
          changed.*member = value;
          changed.check_numbers("MPSNNOptimizerDescriptor");
          self.values = changed;
        },
        doc);
  };
  field("learning_rate", &OptimizerDescriptor::learning_rate,
        "The length of a step: finite, also negative.");
  field("gradient_rescale", &OptimizerDescriptor::gradient_rescale,
        "A factor of gradients: finite.");
  field("apply_gradient_clipping", &OptimizerDescriptor::applies_gradient_clipping,
        "Whether gradients are clipped.");
  field("gradient_clip_max", &OptimizerDescriptor::gradient_clip_max,
        "The largest gradient; may be infinite.");
  field("gradient_clip_min", &OptimizerDescriptor::gradient_clip_min,
        "The smallest gradient: gradient_clip_max or less when an optimizer takes it; may be "
        "infinite.");
  field("regularization_scale", &OptimizerDescriptor::regularization_scale,
        "The penalty's factor: finite, also negative.");
  descriptor.def_property(
      "regularization_type",
      [](const Descriptor& self) {
        return enum_member("MPSNNRegularizationType",
                           static_cast<long>(self.values.regularization_type));
      },
      [](Descriptor& self, const py::object& value) {
        self.values.regularization_type =
            static_cast<RegularizationType>(enum_value("MPSNNRegularizationType", value));
      },
      "The penalty on weights.");
  descriptor.def("_coded",
                 [](const Descriptor& self) { return from_coded(mps::coded(self.values)); });
  descriptor.def_static("_decoded", [](const py::object& values) {
    Descriptor decoded;
    mps::decode(to_coded(values), decoded.values);
    return decoded;
  });

  auto base = BoundClass<NNOptimizer, mps::Kernel, std::shared_ptr<NNOptimizer>>(
      module, "MPSNNOptimizer", "An update rule that is encoded.");
  base.def_property_readonly("learning_rate", &NNOptimizer::learning_rate, "The length of a step.");
  def_method(base, "set_learning_rate", "None", {"new_learning_rate: float"},
             "For encodings from now on; compiles nothing. Errors: a rate that is not finite.",
             [](NNOptimizer& self, const Arguments& arguments) {
               self.set_learning_rate(arguments.get<float>("new_learning_rate"));
             });
  base.def_property("apply_gradient_clipping", &NNOptimizer::apply_gradient_clipping,
                    &NNOptimizer::set_apply_gradient_clipping, "Whether gradients are clipped.");
  const auto value = [&base](const char* name, auto member, const char* doc) {
    base.def_property_readonly(
        name, [member](const NNOptimizer& self) { return self.descriptor().*member; }, doc);
  };
  value("gradient_rescale", &OptimizerDescriptor::gradient_rescale, "A factor of gradients.");
  value("gradient_clip_max", &OptimizerDescriptor::gradient_clip_max, "The largest gradient.");
  value("gradient_clip_min", &OptimizerDescriptor::gradient_clip_min, "The smallest gradient.");
  value("regularization_scale", &OptimizerDescriptor::regularization_scale,
        "The penalty's factor.");
  base.def_property_readonly(
      "regularization_type",
      [](const NNOptimizer& self) {
        return enum_member("MPSNNRegularizationType",
                           static_cast<long>(self.descriptor().regularization_type));
      },
      "The penalty on weights.");
}

}  // namespace

void bind_mps_optimizer(py::module_& module) {
  bind_vectors(module);
  bind_nn_base(module);
  const std::string plain = "device: MTLDevice | MLCDevice | str, learning_rate: float";
  const std::string device = "device: MTLDevice | MLCDevice | str, ";
  const std::string described = "optimizer_descriptor: MPSNNOptimizerDescriptor";

  using Sgd = NNOptimizerStochasticGradientDescent;
  auto sgd = BoundClass<Sgd, NNOptimizer, std::shared_ptr<Sgd>>(
      module, "MPSNNOptimizerStochasticGradientDescent",
      "m = momentum m + lr g, w -= m; Nesterov: m = momentum m + g, w -= lr (g + momentum m).");
  def_kernel(sgd,
             {plain, device + "momentum_scale: float, use_nesterov_momentum: bool, " + described,
              device + "momentum_scale: float, use_nestrov_momentum: bool, " + described},
             "Vectors: one of momentum unless momentum_scale is 0. use_nestrov_momentum is Apple's "
             "deprecated spelling.",
             [](const Arguments& arguments) {
               const bool full = arguments.given("momentum_scale");
               const char* const nesterov = arguments.given("use_nestrov_momentum")
                                                ? "use_nestrov_momentum"
                                                : "use_nesterov_momentum";
               return std::make_shared<Sgd>(to_mps_device(arguments["device"]),
                                            full ? arguments.get<float>("momentum_scale") : 0.0f,
                                            full && arguments.get<bool>(nesterov),
                                            nn_descriptor_of(arguments));
             });
  sgd.def_property_readonly("momentum_scale", &Sgd::momentum_scale,
                            "What stays of the momentum: from 0 to 1.");
  sgd.def_property_readonly("use_nesterov_momentum", &Sgd::use_nesterov_momentum, "Which form.");
  sgd.def_property_readonly("use_nestrov_momentum", &Sgd::use_nesterov_momentum,
                            "The same, in Apple's deprecated spelling.");
  def_encode(sgd, {"input_momentum"});

  using RmsProp = NNOptimizerRMSProp;
  auto rms_prop = BoundClass<RmsProp, NNOptimizer, std::shared_ptr<RmsProp>>(
      module, "MPSNNOptimizerRMSProp",
      "s = decay s + (1 - decay) g^2, w -= lr g / (sqrt(s) + epsilon).");
  def_kernel(rms_prop, {plain, device + "decay: float, epsilon: float, " + described},
             "Without a descriptor decay is 0.9 and epsilon 1e-8.", [](const Arguments& arguments) {
               const bool full = arguments.given("decay");
               return std::make_shared<RmsProp>(
                   to_mps_device(arguments["device"]), full ? arguments.get<double>("decay") : 0.9,
                   full ? arguments.get<float>("epsilon") : 1e-8f, nn_descriptor_of(arguments));
             });
  rms_prop.def_property_readonly("decay", &RmsProp::decay,
                                 "What stays of the sum of squares: from 0 to 1.");
  rms_prop.def_property_readonly(
      "epsilon", &RmsProp::epsilon,
      "Added to the root: 0 or more, finite; below 1.2e-38 it counts as that.");
  def_encode(rms_prop, {"input_sum_of_squares"});

  using Adam = NNOptimizerAdam;
  auto adam = BoundClass<Adam, NNOptimizer, std::shared_ptr<Adam>>(
      module, "MPSNNOptimizerAdam",
      "w -= lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon).");
  def_kernel(
      adam,
      {plain, device + "beta1: float, beta2: float, epsilon: float, time_step: int, " + described},
      "Without a descriptor beta1 is 0.9, beta2 0.999, epsilon 1e-8 and time_step 0. Each "
      "encoding first raises the time step by one.",
      [](const Arguments& arguments) {
        const bool full = arguments.given("beta1");
        return std::make_shared<Adam>(
            to_mps_device(arguments["device"]), full ? arguments.get<double>("beta1") : 0.9,
            full ? arguments.get<double>("beta2") : 0.999,
            full ? arguments.get<float>("epsilon") : 1e-8f,
            full ? arguments.get<std::int64_t>("time_step") : 0, nn_descriptor_of(arguments));
      });
  adam.def_property_readonly("beta1", &Adam::beta1,
                             "What stays of the momentum: from 0 to less than 1.");
  adam.def_property_readonly("beta2", &Adam::beta2,
                             "What stays of the velocity: from 0 to less than 1.");
  adam.def_property_readonly(
      "epsilon", &Adam::epsilon,
      "Added to the root: 0 or more, finite; below 1.2e-38 it counts as that.");
  adam.def_property("time_step", &Adam::time_step, &Adam::set_time_step,
                    "Of the last encoding; the next one uses one more. From 0 to 2**53 - 1.");
  def_encode(adam, {"input_momentum", "input_velocity", "maximum_velocity"});
}

}  // namespace traingraph::python
