#pragma once

#include "mps_bindings.h"

namespace traingraph::python {

inline mps::NeuronDescriptor fused_neuron(const Arguments& arguments) {
  return arguments.optional<mps::NeuronDescriptor>("fused_neuron_descriptor")
      .value_or(mps::NeuronDescriptor{});
}

// Secure coding and copying of kernels whose one property is their neuron.
inline void encode_neuron(const mps::NeuronDescriptor& neuron, const std::string& label,
                          const py::object& coder) {
  const auto put = [&coder](const char* key, const py::object& value) {
    coder.attr("encode")(value, py::arg("for_key") = key);
  };
  put("label", py::str(label));
  put("neuron_type", py::int_(static_cast<int>(neuron.type)));
  put("a", py::float_(neuron.a));
  put("b", py::float_(neuron.b));
  put("c", py::float_(neuron.c));
  put("data", py::cast(neuron.data));
}

inline mps::NeuronDescriptor decode_neuron(const py::object& coder) {
  const auto get = [&coder](const char* key) {
    return coder.attr("decode")(py::arg("for_key") = key);
  };
  mps::NeuronDescriptor neuron;
  neuron.type = static_cast<mps::NeuronType>(enum_value("MPSCNNNeuronType", get("neuron_type")));
  neuron.a = py::cast<float>(get("a"));
  neuron.b = py::cast<float>(get("b"));
  neuron.c = py::cast<float>(get("c"));
  neuron.data = py::cast<std::vector<float>>(get("data"));
  return neuron;
}

inline constexpr const char* kCoderForm =
    "coder: typing.Any, device: MTLDevice | MLCDevice | str | None = None";

// From a fused neuron, or from a coder, which brings the device unless one is given.
template <typename Self>
std::shared_ptr<Self> make_kernel(const Arguments& arguments) {
  if (!arguments.given("coder")) {
    return std::make_shared<Self>(to_mps_device(arguments["device"]), fused_neuron(arguments));
  }
  const py::object coder = arguments["coder"];
  py::object device = arguments["device"];
  if (device.is_none()) {
    if (!py::hasattr(coder, "mps_mtl_device")) {
      throw InvalidArgument(
          "[MPSKernel] expected a device, or a coder that provides one by mps_mtl_device(), but "
          "got "
          "neither");
    }
    device = coder.attr("mps_mtl_device")();
  }
  auto kernel = std::make_shared<Self>(to_mps_device(device), decode_neuron(coder));
  kernel->label = py::cast<std::string>(coder.attr("decode")(py::arg("for_key") = "label"));
  return kernel;
}

template <typename Class>
void def_coding(Class& cls) {
  using Self = typename Class::type;
  cls.def(
      "encode_with_coder",
      [](const Self& self, const py::object& coder) {
        encode_neuron(self.fused_neuron_descriptor(), self.label, coder);
      },
      py::arg("coder"), "Writes the properties into a coder, such as NSKeyedArchiver.");
  def_method(cls, "copy", py::cast<std::string>(cls.attr("__name__")).c_str(),
             {"device: MTLDevice | MLCDevice | str | None = None"},
             "An independent kernel with the same properties, on this device or another one.",
             [](Self& self, const Arguments& arguments) {
               const py::object device = arguments["device"];
               auto kernel =
                   std::make_shared<Self>(device.is_none() ? self.device() : to_mps_device(device),
                                          self.fused_neuron_descriptor());
               kernel->label = self.label;
               return kernel;
             });
}

}  // namespace traingraph::python
