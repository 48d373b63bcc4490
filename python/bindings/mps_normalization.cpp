#include "mps_bindings.h"
#include "mps_encoding.h"
#include "release.h"

namespace traingraph::python {
namespace {

using mps::CNNGradientKernel;
using mps::CNNGroupNormalization;
using mps::CNNGroupNormalizationDataSource;
using mps::CNNGroupNormalizationGradient;
using mps::CNNGroupNormalizationGradientState;
using mps::CNNInstanceNormalization;
using mps::CNNInstanceNormalizationDataSource;
using mps::CNNInstanceNormalizationGradient;
using mps::CNNInstanceNormalizationGradientState;
using mps::CNNKernel;
using mps::CNNLocalNormalization;
using mps::CNNLocalNormalizationGradient;
using mps::LocalNormalization;
using mps::LocalNormalizationType;

constexpr const char* kDevice = "device: MTLDevice | MLCDevice | str";
constexpr const char* kInstanceSource = "MPSCNNInstanceNormalizationDataSource";
constexpr const char* kGroupSource = "MPSCNNGroupNormalizationDataSource";

// --- local normalizations ------------------------------------------------------------------------

LocalNormalization parameters_of(LocalNormalizationType type, const Arguments& arguments) {
  if (type == LocalNormalizationType::kCrossChannel) {
    return LocalNormalization::cross_channel(arguments.get<std::int64_t>("kernel_size"));
  }
  const auto width = arguments.get<std::int64_t>("kernel_width");
  const auto height = arguments.get<std::int64_t>("kernel_height");
  return type == LocalNormalizationType::kSpatial
             ? LocalNormalization::spatial(width, height)
             : LocalNormalization::local_contrast(width, height);
}

template <LocalNormalizationType kType, typename Base>
struct LocalOf final : Base {
  LocalOf(const mps::Device& device, const LocalNormalization& parameters)
      : Base(device, parameters) {}
};

template <typename Class>
void def_number(Class& cls, const char* name, float LocalNormalization::* member, const char* doc) {
  using Self = typename Class::type;
  cls.def_property(
      name, [member](const Self& self) { return self.parameters().*member; },
      [member](Self& self, float value) {
        LocalNormalization changed = self.parameters();
        changed.*member = value;
        self.set_parameters(changed);
      },
      doc);
}

template <LocalNormalizationType kType, typename Base, typename Registered>
py::class_<LocalOf<kType, Base>, Registered, std::shared_ptr<LocalOf<kType, Base>>> bind_local(
    py::module_& module, const char* name, const char* doc, const char* detail) {
  using T = LocalOf<kType, Base>;
  constexpr bool across = kType == LocalNormalizationType::kCrossChannel;
  auto cls = py::class_<T, Registered, std::shared_ptr<T>>(module, name, doc);
  def_init(cls,
           {std::string(kDevice) +
            (across ? ", kernel_size: int" : ", kernel_width: int, kernel_height: int")},
           detail, [](const Arguments& arguments) {
             return std::make_shared<T>(to_mps_device(arguments["device"]),
                                        parameters_of(kType, arguments));
           });
  def_number(cls, "alpha", &LocalNormalization::alpha, "The weight of the window.");
  def_number(cls, "beta", &LocalNormalization::beta, "The divisor's power.");
  def_number(cls, "delta", &LocalNormalization::delta, "The least divisor before its power.");
  if constexpr (across) {
    cls.def_property_readonly(
        "kernel_size", [](const T& self) { return self.parameters().kernel_width; },
        "Channels of the window.");
  }
  if constexpr (kType == LocalNormalizationType::kLocalContrast) {
    def_number(cls, "p0", &LocalNormalization::p0, "How much of the mean is taken away.");
    def_number(cls, "pm", &LocalNormalization::pm, "Added to the result.");
    def_number(cls, "ps", &LocalNormalization::ps, "A factor of the result.");
  }
  return cls;
}

template <LocalNormalizationType kType>
void bind_local_pair(py::module_& module, const std::string& name, const char* doc,
                     const char* gradient_detail) {
  bind_local<kType, CNNLocalNormalization, CNNKernel>(
      module, name.c_str(), doc,
      "A window reaches floor(k / 2) before its middle and floor((k - 1) / 2) behind it; beyond "
      "the image are zeros, and the mean is over the whole window.");
  auto gradient = bind_local<kType, CNNLocalNormalizationGradient, CNNGradientKernel>(
      module, (name + "Gradient").c_str(),
      "The exact derivative, which Apple's text is not; parameters as in the forward kernel.",
      gradient_detail);
  gradient.def_property(
      "header_formula", &CNNLocalNormalizationGradient::header_formula,
      &CNNLocalNormalizationGradient::set_header_formula,
      "Whether Apple's text is computed in place of the derivative; an addition of traingraph, for "
      "comparison. Errors: local contrast, which has none here.");
}

void bind_locals(py::module_& module) {
  bind_local_pair<LocalNormalizationType::kCrossChannel>(
      module, "MPSCNNCrossChannelNormalization",
      "x / (delta + alpha mean(x^2)) ^ beta, the mean over neighbouring channels.",
      "dy / L^beta - 2 alpha beta / N x sum over the mirrored window of dy x / L^(beta + 1).");
  bind_local_pair<LocalNormalizationType::kSpatial>(
      module, "MPSCNNSpatialNormalization",
      "x / (delta + alpha mean(x^2)) ^ beta, the mean over neighbouring pixels.",
      "dy / T^beta - 2 alpha beta / N x sum over the mirrored window of dy x / T^(beta + 1).");
  bind_local_pair<LocalNormalizationType::kLocalContrast>(
      module, "MPSCNNLocalContrastNormalization",
      "pm + ps (x - p0 mean(x)) / (delta + alpha variance(x)) ^ beta.",
      "The derivative by every pixel that a window reads.");
}

// --- instance and group normalization ------------------------------------------------------------

// A data source that the user wrote: any object with the members it has to have.
class PythonSource final : public CNNGroupNormalizationDataSource {
 public:
  using GammaAndBeta = std::shared_ptr<mps::CNNNormalizationGammaAndBetaState>;
  PythonSource(const py::object& object, std::string protocol)
      : kept_(share(object)), object_(object), protocol_(std::move(protocol)) {}

  // Graphs call after the run too, on its thread: each method takes the GIL.
  std::int64_t number_of_feature_channels() const override {
    return integer("number_of_feature_channels");
  }
  std::int64_t number_of_groups() const override { return integer("number_of_groups"); }
  const float* gamma() const override { return array("gamma"); }
  const float* beta() const override { return array("beta"); }
  bool load() override {
    const py::gil_scoped_acquire acquire;
    return !has("load") || py::cast<bool>(object_.attr("load")());
  }
  void purge() override {
    const py::gil_scoped_acquire acquire;
    arrays_.clear();
    if (has("purge")) object_.attr("purge")();
  }
  std::string label() const override {
    const py::gil_scoped_acquire acquire;
    const py::object value = has("label") ? object_.attr("label")() : py::none();
    return value.is_none() ? "" : py::cast<std::string>(py::str(value));
  }
  float epsilon() const override {
    const py::gil_scoped_acquire acquire;
    if (!has("epsilon")) return CNNGroupNormalizationDataSource::epsilon();
    return static_cast<float>(
        to_number(object_.attr("epsilon")(), {protocol_, "epsilon", "float"}));
  }
  GammaAndBeta update_gamma_and_beta(mps::CommandBuffer& buffer,
                                     const mps::StateBatch& states) override {
    const py::gil_scoped_acquire acquire;
    const char* const name = "update_gamma_and_beta";
    if (!has(name)) return nullptr;
    const py::object result = object_.attr(name)(buffer.shared_from_this(), states);
    if (result.is_none()) return nullptr;
    return convert<GammaAndBeta>(
        result, {protocol_ + "." + name, "result", "MPSCNNNormalizationGammaAndBetaState | None"});
  }
  bool update_gamma_and_beta(const mps::StateBatch& states) override {
    const py::gil_scoped_acquire acquire;
    const std::string name = protocol_ == kGroupSource
                                 ? "update_gamma_and_beta_with_group_normalization_state_batch"
                                 : "update_gamma_and_beta_with_instance_normalization_state_batch";
    if (!has(name.c_str())) return false;
    const py::object result = object_.attr(name.c_str())(states);
    return !result.is_none() && to_bool(result, {protocol_ + "." + name, "result", "bool | None"});
  }
  py::object object() const { return py::reinterpret_borrow<py::object>(object_); }

 private:
  bool has(const char* name) const { return py::hasattr(object_, name); }
  // Properties in Apple's protocol; a method of the name does as well.
  std::int64_t integer(const char* name) const {
    const py::gil_scoped_acquire acquire;
    py::object value = object_.attr(name);
    if (PyCallable_Check(value.ptr()) != 0) value = value();
    return to_integer(value, {protocol_, name, "int"});
  }
  const float* array(const char* name) const {
    const py::gil_scoped_acquire acquire;
    const py::object value = has(name) ? object_.attr(name)() : py::none();
    if (value.is_none()) return nullptr;
    return static_cast<const float*>(elements_of(
        value, DataType::kFloat32, number_of_feature_channels(), protocol_.c_str(), name, arrays_));
  }

  std::shared_ptr<const void> kept_;
  py::handle object_;
  std::string protocol_;
  mutable std::vector<py::object> arrays_;  // while they are read
};

template <typename T>
auto bind_kernel(py::module_& module, const char* name, const char* protocol, const char* doc) {
  auto cls = py::class_<T, CNNKernel, std::shared_ptr<T>>(module, name, doc);
  def_init(cls, {std::string(kDevice) + ", data_source: typing.Any"}, "Loads gamma and beta.",
           [protocol](const Arguments& arguments) {
             return std::make_shared<T>(
                 idle(to_mps_device(arguments["device"])),
                 std::make_shared<PythonSource>(arguments["data_source"], protocol));
           });
  cls.def_property(
      "epsilon", [](const T& self) { return self.epsilon(); },
      [](T& self, float value) { self.set_epsilon(value); }, "Added to the variance.");
  cls.def_property_readonly(
      "data_source",
      [](const T& self) { return static_cast<const PythonSource&>(*self.data_source()).object(); },
      "Where gamma and beta came from.");
  cls.def(
      "reload_gamma_and_beta_from_data_source",
      [](T& self) {
        idle(self.device());
        self.reload_gamma_and_beta_from_data_source();
      },
      "Reads the data source again, when all runs that were committed are done.");
  def_method(cls, "reload_gamma_and_beta", "None",
             {"command_buffer: MTLCommandBuffer, "
              "gamma_and_beta_state: MPSCNNNormalizationGammaAndBetaState"},
             "Encodes the replacement of gamma and beta by the state's.",
             [](T& self, const Arguments& arguments) {
               self.reload_gamma_and_beta(
                   command_buffer(arguments),
                   *arguments.get<std::shared_ptr<mps::CNNNormalizationGammaAndBetaState>>(
                       "gamma_and_beta_state"));
             });
  return cls;
}

template <typename T, typename Kernel>
void bind_state(py::module_& module, const char* name, const char* kernel) {
  auto cls = py::class_<T, mps::GradientState, std::shared_ptr<T>>(
      module, name, "The gradients of one image; whoever updates adds those of a batch up.");
  cls.def_property_readonly("gamma", &T::gamma, "The kernel's factors.");
  cls.def_property_readonly("beta", &T::beta, "The kernel's terms.");
  cls.def_property_readonly("gradient_for_gamma", &T::gradient_for_gamma, "Sum of dy x^.");
  cls.def_property_readonly("gradient_for_beta", &T::gradient_for_beta, "Sum of dy.");
  cls.def_property_readonly(
      kernel,
      [](const T& self) {
        return std::static_pointer_cast<Kernel>(
            std::const_pointer_cast<CNNInstanceNormalization>(self.normalization()));
      },
      "The forward kernel.");
}

template <typename T>
void bind_gradient(py::module_& module, const char* name) {
  auto cls = py::class_<T, CNNGradientKernel, std::shared_ptr<T>>(
      module, name, "The gradient by data, and by gamma and beta into the states.");
  def_init(cls, {kDevice}, "Gamma and epsilon are those of the state's kernel.",
           [](const Arguments& arguments) {
             return std::make_shared<T>(to_mps_device(arguments["device"]));
           });
}

void bind_instances(py::module_& module) {
  auto instance = bind_kernel<CNNInstanceNormalization>(
      module, "MPSCNNInstanceNormalization", kInstanceSource,
      "gamma (x - mean) / sqrt(variance + epsilon) + beta over each channel of each image.");
  def_method(instance, "reload_data_source", "None", {"data_source: typing.Any"},
             "Another data source. Errors: another number of channels.",
             [](CNNInstanceNormalization& self, const Arguments& arguments) {
               idle(self.device());
               self.reload_data_source(
                   std::make_shared<PythonSource>(arguments["data_source"], kInstanceSource));
             });
  bind_kernel<CNNGroupNormalization>(
      module, "MPSCNNGroupNormalization", kGroupSource,
      "gamma (x - mean) / sqrt(variance + epsilon) + beta over groups of channels of each image.");
  bind_state<CNNInstanceNormalizationGradientState, CNNInstanceNormalization>(
      module, "MPSCNNInstanceNormalizationGradientState", "instance_normalization");
  bind_state<CNNGroupNormalizationGradientState, CNNGroupNormalization>(
      module, "MPSCNNGroupNormalizationGradientState", "group_normalization");
  bind_gradient<CNNInstanceNormalizationGradient>(module, "MPSCNNInstanceNormalizationGradient");
  bind_gradient<CNNGroupNormalizationGradient>(module, "MPSCNNGroupNormalizationGradient");
}

}  // namespace

mps::CNNGroupNormalizationDataSourcePtr image_normalization_source(const py::object& object,
                                                                   const std::string& protocol) {
  return std::make_shared<PythonSource>(object, protocol);
}

void bind_mps_normalization(py::module_& module) {
  bind_locals(module);
  bind_instances(module);
}

}  // namespace traingraph::python
