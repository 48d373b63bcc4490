#include "mps_coding.h"
#include "mps_data_source.h"

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
  using Core = Base;
  explicit LocalOf(const Core& core) : Core(core) {}
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
BoundClass<LocalOf<kType, Base>, Registered, std::shared_ptr<LocalOf<kType, Base>>> bind_local(
    py::module_& module, const char* name, const char* doc, const char* detail) {
  using T = LocalOf<kType, Base>;
  constexpr bool across = kType == LocalNormalizationType::kCrossChannel;
  auto cls = BoundClass<T, Registered, std::shared_ptr<T>>(module, name, doc);
  def_kernel(cls,
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
      "comparison.");
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

class GroupSource final : public UserNormalizationSource<CNNGroupNormalizationDataSource> {
 public:
  using GammaAndBeta = std::shared_ptr<mps::CNNNormalizationGammaAndBetaState>;
  using UserNormalizationSource::UserNormalizationSource;
  std::int64_t number_of_groups() const override { return integer("number_of_groups"); }
  GammaAndBeta update_gamma_and_beta(mps::CommandBuffer& buffer,
                                     const mps::StateBatch& states) override {
    const HeldGil held;
    return new_state<GammaAndBeta>("update_gamma_and_beta",
                                   "MPSCNNNormalizationGammaAndBetaState | None",
                                   buffer.shared_from_this(), states);
  }
  bool update_gamma_and_beta(const mps::StateBatch& states) override {
    const HeldGil held;
    return says_yes(protocol_ == kGroupSource
                        ? "update_gamma_and_beta_with_group_normalization_state_batch"
                        : "update_gamma_and_beta_with_instance_normalization_state_batch",
                    states);
  }
  mps::CNNInstanceNormalizationDataSourcePtr copy(const mps::Device& device) override {
    return copied(device, [this](const py::object& object) {
      return image_normalization_source(object, protocol_);
    });
  }
};

template <typename T>
auto bind_kernel(py::module_& module, const char* name, const char* protocol, const char* doc) {
  auto cls = BoundClass<T, CNNKernel, std::shared_ptr<T>>(module, name, doc);
  def_kernel(cls, {std::string(kDevice) + ", data_source: typing.Any"}, "Loads gamma and beta.",
             [protocol](const Arguments& arguments) {
               return std::make_shared<T>(
                   idle(to_mps_device(arguments["device"])),
                   image_normalization_source(arguments["data_source"], protocol));
             });
  cls.def_property(
      "epsilon", [](const T& self) { return self.epsilon(); },
      [](T& self, float value) { self.set_epsilon(value); }, "Added to the variance.");
  cls.def_property_readonly(
      "data_source",
      [](const T& self) {
        return from_source<GroupSource, mps::GroupNormalizationOfArrays>(self.data_source());
      },
      "Where gamma and beta came from.");
  def_gamma_and_beta(cls);
  return cls;
}

template <typename T, typename Kernel>
void bind_state(py::module_& module, const char* name, const char* kernel) {
  auto cls = BoundClass<T, mps::GradientState, std::shared_ptr<T>>(
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
  auto cls = BoundClass<T, CNNGradientKernel, std::shared_ptr<T>>(
      module, name, "The gradient by data, and by gamma and beta into the states.");
  def_kernel(cls, {kDevice}, "Gamma and epsilon are those of the state's kernel.",
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
                   image_normalization_source(arguments["data_source"], kInstanceSource));
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
  return to_source<mps::GroupNormalizationOfArrays>(
      object, [&protocol](const py::object& user) -> mps::CNNGroupNormalizationDataSourcePtr {
        return std::make_shared<GroupSource>(user, protocol);
      });
}

void bind_mps_normalization(py::module_& module) {
  bind_locals(module);
  bind_instances(module);
}

}  // namespace traingraph::python
