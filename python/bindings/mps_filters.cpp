#include "mps_bindings.h"
#include "mps_coding.h"
#include "mps_encoding.h"
#include "mps_neurons.h"

namespace traingraph::python {
namespace {

using mps::CNNGradientKernel;
using mps::CNNKernel;
using mps::CNNNeuron;
using mps::CNNNeuronGradient;
using mps::CNNPooling;
using mps::CNNPoolingGradient;
using mps::CNNPoolingType;
using mps::CNNSoftMax;
using mps::CNNSoftMaxGradient;
using mps::NeuronDescriptor;

// One Python class each for what is one class of the core with a type.
template <CNNPoolingType kType>
struct PoolingOf final : CNNPooling {
  using Core = CNNPooling;
  explicit PoolingOf(const Core& core) : Core(core) {}
  PoolingOf(const mps::Device& device, const mps::KernelWindow& window)
      : CNNPooling(device, kType, window) {}
};
template <CNNPoolingType kType>
struct PoolingGradientOf final : CNNPoolingGradient {
  using Core = CNNPoolingGradient;
  explicit PoolingGradientOf(const Core& core) : Core(core) {}
  PoolingGradientOf(const mps::Device& device, const mps::KernelWindow& window)
      : CNNPoolingGradient(device, kType, window) {}
};
template <typename T>
constexpr bool is_average = std::is_same_v<T, PoolingOf<CNNPoolingType::kAverage>> ||
                            std::is_same_v<T, PoolingGradientOf<CNNPoolingType::kAverage>>;
template <mps::NeuronType kType>
struct NeuronOf final : CNNNeuron {
  using Core = CNNNeuron;
  explicit NeuronOf(const Core& core) : Core(core) {}
  using CNNNeuron::CNNNeuron;
};
template <bool kLogarithm>
struct SoftMaxOf final : CNNSoftMax {
  using Core = CNNSoftMax;
  explicit SoftMaxOf(const Core& core) : Core(core) {}
  explicit SoftMaxOf(const mps::Device& device) : CNNSoftMax(device, kLogarithm) {}
};
template <bool kLogarithm>
struct SoftMaxGradientOf final : CNNSoftMaxGradient {
  using Core = CNNSoftMaxGradient;
  explicit SoftMaxGradientOf(const Core& core) : Core(core) {}
  explicit SoftMaxGradientOf(const mps::Device& device) : CNNSoftMaxGradient(device, kLogarithm) {}
};

NeuronDescriptor make_neuron(const Arguments& arguments) {
  NeuronDescriptor neuron;
  neuron.type = arguments.get<mps::NeuronType>("with_type");
  neuron.a = arguments.get<float>("a");
  neuron.b = arguments.get<float>("b");
  neuron.c = arguments.get<float>("c");
  return neuron;
}

constexpr const char* kNeuronForm =
    "device: MTLDevice | MLCDevice | str, neuron_descriptor: MPSNNNeuronDescriptor";

// The first `count` slopes of a PReLU, or all.
std::vector<float> slopes_of(const Arguments& arguments) {
  std::vector<float> slopes = convert_list<float>(arguments["a"], arguments.where("a"));
  const auto count = arguments.optional<std::int64_t>("count");
  if (!count.has_value()) return slopes;
  if (*count < 1 || *count > static_cast<std::int64_t>(slopes.size())) {
    throw InvalidArgument("[MPSCNNNeuronPReLU] expected a count from 1 to " +
                          std::to_string(slopes.size()) + ", the slopes, but got " +
                          std::to_string(*count));
  }
  slopes.resize(static_cast<std::size_t>(*count));
  return slopes;
}

// A node's form without its defaults: Apple marks a kernel's initWithDevice: as unavailable.
std::string without_defaults(std::string form) {
  for (std::size_t at = form.find(" = "); at != std::string::npos; at = form.find(" = ")) {
    form.erase(at, std::min(form.find(',', at), form.size()) - at);
  }
  return form;
}

template <mps::NeuronType kType>
void bind_named_neuron(py::module_& module, const NeuronName& row) {
  using T = NeuronOf<kType>;
  static const std::string name = "MPSCNNNeuron" + std::string(row.name);
  constexpr bool kSlopes = kType == mps::NeuronType::kPReLU;
  const std::string parameters =
      kSlopes ? ", a: collections.abc.Iterable[float], count: int | None = None"
              : without_defaults(row.parameters);
  auto cls = BoundClass<T, CNNNeuron, std::shared_ptr<T>>(module, name.c_str(), row.doc);
  def_kernel(cls, {"device: MTLDevice | MLCDevice | str" + parameters, kNeuronForm},
             "MPSCNNNeuron with a function of its own. Errors: the descriptor of another function.",
             [row](const Arguments& arguments) {
               const mps::Device device = to_mps_device(arguments["device"]);
               if (!arguments.given("neuron_descriptor")) {
                 std::vector<float> slopes = kSlopes ? slopes_of(arguments) : std::vector<float>();
                 return std::make_shared<T>(device, named_neuron(row, arguments, std::move(slopes)),
                                            name.c_str());
               }
               const auto descriptor = arguments.get<NeuronDescriptor>("neuron_descriptor");
               if (descriptor.type != kType) {
                 throw InvalidArgument("[" + name + "] expected a descriptor of neuron type " +
                                       std::to_string(static_cast<int>(kType)) +
                                       " but got one of " +
                                       std::to_string(static_cast<int>(descriptor.type)));
               }
               return std::make_shared<T>(device, descriptor, name.c_str());
             });
}

void bind_neuron(py::module_& module) {
  auto descriptor = BoundClass<NeuronDescriptor>(module, "MPSNNNeuronDescriptor",
                                                 "A neuron's function and its parameters.");
  def_factory(descriptor, "cnn_neuron_descriptor", "MPSNNNeuronDescriptor",
              {"with_type: MPSCNNNeuronType | str, a: float = 1.0, b: float = 1.0, c: float = 1.0"},
              "What a, b and c mean depends on the type.", make_neuron);
  def_factory(
      descriptor, "cnn_neuron_prelu_descriptor", "MPSNNNeuronDescriptor",
      {"with_data: collections.abc.Iterable[float], no_copy: bool = False"},
      "PReLU with one slope per channel; the slopes are always copied.",
      [](const Arguments& arguments) {
        NeuronDescriptor neuron;
        neuron.type = mps::NeuronType::kPReLU;
        for (const py::object& slope :
             to_items(arguments["with_data"], arguments.where("with_data"))) {
          neuron.data.push_back(static_cast<float>(to_number(slope, arguments.where("with_data"))));
        }
        return neuron;
      });
  descriptor.def_property(
      "neuron_type", [](const NeuronDescriptor& self) { return self.type; },
      [](NeuronDescriptor& self, mps::NeuronType value) { self.type = value; }, "The function.");
  descriptor.def_readwrite("a", &NeuronDescriptor::a, "The first parameter.");
  descriptor.def_readwrite("b", &NeuronDescriptor::b, "The second parameter.");
  descriptor.def_readwrite("c", &NeuronDescriptor::c, "The third parameter.");
  descriptor.def_readwrite("data", &NeuronDescriptor::data, "PReLU's slopes.");
  def_copy(descriptor, [](const NeuronDescriptor& self) { return self; });
  def_coded(descriptor);

  auto neuron = BoundClass<CNNNeuron, CNNKernel, std::shared_ptr<CNNNeuron>>(
      module, "MPSCNNNeuron", "y = f(x), element by element.");
  def_kernel(neuron, {kNeuronForm}, "Shapes: any to the same.", [](const Arguments& arguments) {
    return std::make_shared<CNNNeuron>(to_mps_device(arguments["device"]),
                                       arguments.get<NeuronDescriptor>("neuron_descriptor"));
  });
  auto gradient =
      BoundClass<CNNNeuronGradient, CNNGradientKernel, std::shared_ptr<CNNNeuronGradient>>(
          module, "MPSCNNNeuronGradient", "dx = dy f'(x), the exact derivative.");
  def_kernel(gradient, {kNeuronForm}, "Gradient: reads the forward source.",
             [](const Arguments& arguments) {
               return std::make_shared<CNNNeuronGradient>(
                   to_mps_device(arguments["device"]),
                   arguments.get<NeuronDescriptor>("neuron_descriptor"));
             });
  const auto properties = [](auto& cls) {
    using Self = typename std::remove_reference_t<decltype(cls)>::type;
    cls.def_property_readonly(
        "neuron_type", [](const Self& self) { return self.descriptor().type; }, "The function.");
    cls.def_property_readonly(
        "a", [](const Self& self) { return self.descriptor().a; }, "The first parameter.");
    cls.def_property_readonly(
        "b", [](const Self& self) { return self.descriptor().b; }, "The second parameter.");
    cls.def_property_readonly(
        "c", [](const Self& self) { return self.descriptor().c; }, "The third parameter.");
    cls.def_property_readonly(
        "data", [](const Self& self) { return self.descriptor().data; }, "PReLU's slopes.");
  };
  properties(neuron);
  properties(gradient);
  gradient.def_property(
      "header_formula", &CNNNeuronGradient::header_formula, &CNNNeuronGradient::set_header_formula,
      "Whether Apple's table is followed in place of the derivative, for comparison: ReLUN has b "
      "from b on. An addition of traingraph. Errors: other types, which the table has right.");
  each_neuron([&module]<mps::NeuronType kType>(const NeuronName& row) {
    if (row.has_kernel) bind_named_neuron<kType>(module, row);
  });
}

mps::KernelWindow window_of(const Arguments& arguments, bool dilated) {
  mps::KernelWindow window;
  window.kernel_width = arguments.get<std::int64_t>("kernel_width");
  window.kernel_height = arguments.get<std::int64_t>("kernel_height");
  window.stride_x = arguments.get<std::int64_t>("stride_in_pixels_x");
  window.stride_y = arguments.get<std::int64_t>("stride_in_pixels_y");
  if (dilated) {
    window.dilation_x = arguments.get<std::int64_t>("dilation_rate_x");
    window.dilation_y = arguments.get<std::int64_t>("dilation_rate_y");
  }
  return window;
}

template <typename Class>
void def_zero_pad(Class& cls) {
  using Self = typename Class::type;
  constexpr const char* kDoc =
      "So many zeros on either side of the image are counted with edge mode CLAMP. Errors: below "
      "0.";
  cls.def_property(
      "zero_pad_size_x", [](const Self& self) { return self.window().zero_pad_x; },
      [](Self& self, std::int64_t value) { self.set_zero_pad_size_x(value); }, kDoc);
  cls.def_property(
      "zero_pad_size_y", [](const Self& self) { return self.window().zero_pad_y; },
      [](Self& self, std::int64_t value) { self.set_zero_pad_size_y(value); }, kDoc);
}

template <typename T, typename Base>
void bind_pool(py::module_& module, const char* name, const char* doc, const char* detail,
               bool dilated) {
  auto cls = BoundClass<T, Base, std::shared_ptr<T>>(module, name, doc);
  // Apple marks the form without rates as unavailable in the gradient alone.
  const std::string rate = std::is_same_v<Base, CNNPooling> ? ": int = 1" : ": int";
  const std::string form =
      std::string(
          "device: MTLDevice | MLCDevice | str, kernel_width: int, "
          "kernel_height: int") +
      (dilated ? ", dilation_rate_x" + rate + ", dilation_rate_y" + rate : "") +
      ", stride_in_pixels_x: int = 1, stride_in_pixels_y: int = 1";
  def_kernel(cls, {form}, detail, [dilated](const Arguments& arguments) {
    return std::make_shared<T>(to_mps_device(arguments["device"]), window_of(arguments, dilated));
  });
  if constexpr (is_average<T>) def_zero_pad(cls);
}

template <CNNPoolingType type>
void bind_pool_pair(py::module_& module, const std::string& name, const char* doc,
                    const char* gradient) {
  constexpr bool dilated = type == CNNPoolingType::kDilatedMax;
  bind_pool<PoolingOf<type>, CNNPooling>(
      module, name.c_str(), doc,
      "The window at position i begins at offset - floor(extent / 2) + stride i.", dilated);
  bind_pool<PoolingGradientOf<type>, CNNPoolingGradient>(
      module, (name + "Gradient").c_str(), gradient,
      "The secondary offset is the forward kernel's offset.", dilated);
}

void bind_pooling_kernels(py::module_& module) {
  BoundClass<CNNPooling, CNNKernel, std::shared_ptr<CNNPooling>>(
      module, "MPSCNNPooling", "Joins the pixels of each window.");
  auto gradient =
      BoundClass<CNNPoolingGradient, CNNGradientKernel, std::shared_ptr<CNNPoolingGradient>>(
          module, "MPSCNNPoolingGradient", "Spreads each gradient over its window.");
  gradient.def_property(
      "source_size",
      [](const CNNPoolingGradient& self) -> py::object {
        return from_region(self.source_size())[py::int_(1)];
      },
      [](CNNPoolingGradient& self, const py::object& value) {
        self.set_source_size(to_region(py::make_tuple(py::make_tuple(0, 0), value),
                                       "MPSCNNPoolingGradient.source_size"));
      },
      "(width, height) of the incoming gradient from primary_offset on that counts, as far as it "
      "is there; everything at the beginning. Errors: nothing, or a part of the images.");
  bind_pool_pair<CNNPoolingType::kMax>(module, "MPSCNNPoolingMax",
                                       "The largest pixel; edge mode CLAMP at the beginning.",
                                       "dy goes to the first largest pixel of its window.");
  bind_pool_pair<CNNPoolingType::kAverage>(
      module, "MPSCNNPoolingAverage",
      "The mean: over the whole window with edge mode ZERO, over the image's part with CLAMP.",
      "dy over the count, to each pixel of its window.");
  bind_pool_pair<CNNPoolingType::kL2Norm>(module, "MPSCNNPoolingL2Norm",
                                          "The root of the sum of squares.",
                                          "dy x / y, and 0 where y is 0.");
  bind_pool_pair<CNNPoolingType::kDilatedMax>(module, "MPSCNNDilatedPoolingMax",
                                              "The largest pixel of a window with gaps.",
                                              "dy goes to the first largest pixel of its window.");
}

template <bool logarithm>
void bind_softmax_pair(py::module_& module, const char* name, const char* gradient_name,
                       const char* gradient_doc) {
  using Forward = SoftMaxOf<logarithm>;
  using Gradient = SoftMaxGradientOf<logarithm>;
  auto forward = BoundClass<Forward, CNNKernel, std::shared_ptr<Forward>>(
      module, name, "Over the channels of each pixel.");
  def_kernel(forward, {"device: MTLDevice | MLCDevice | str"}, "Shapes: any to the same.",
             [](const Arguments& arguments) {
               return std::make_shared<Forward>(to_mps_device(arguments["device"]));
             });
  auto gradient = BoundClass<Gradient, CNNGradientKernel, std::shared_ptr<Gradient>>(
      module, gradient_name, gradient_doc);
  def_kernel(gradient, {"device: MTLDevice | MLCDevice | str"},
             "The secondary image is the forward result y, not its source.",
             [](const Arguments& arguments) {
               return std::make_shared<Gradient>(to_mps_device(arguments["device"]));
             });
}

}  // namespace

void bind_mps_filters(py::module_& module) {
  bind_neuron(module);
  bind_pooling_kernels(module);
  bind_softmax_pair<false>(module, "MPSCNNSoftMax", "MPSCNNSoftMaxGradient",
                           "dx = y (dy - sum of dy y).");
  bind_softmax_pair<true>(module, "MPSCNNLogSoftMax", "MPSCNNLogSoftMaxGradient",
                          "dx = dy - exp(y) sum of dy.");
}

}  // namespace traingraph::python
