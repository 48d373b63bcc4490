#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "described_class.h"
#include "mps_bindings.h"

// Copies and bytes of kernels, over <traingraph/mps/coding.h>.
namespace traingraph::python {

inline mps::NeuronDescriptor fused_neuron(const Arguments& arguments) {
  return arguments.optional<mps::NeuronDescriptor>("fused_neuron_descriptor")
      .value_or(mps::NeuronDescriptor{});
}

// What of coding is Python's: data sources' own copies, and the nodes of a graph.
inline py::object python_coding(const char* function, const char* module = "kernel_coding") {
  return py::module_::import((std::string("traingraph.mps.") + module).c_str()).attr(function);
}

// None, numbers, texts, and lists and dictionaries of these. Raises InvalidArgument for others.
mps::CodedValue to_coded(py::handle value);
py::object from_coded(const mps::CodedValue& value);

// An object of the user's, such as NSKeyedArchiver or MPSKeyedUnarchiver.
class PythonCoder : public mps::Coder {
 public:
  explicit PythonCoder(py::object object) : object_(std::move(object)) {}
  void encode(const mps::CodedValue& value, const std::string& key) override;
  // What the object raises where something is missing becomes an InvalidArgument.
  mps::CodedValue decode(const std::string& key) const override;

 protected:
  py::object object_;
};

// One that says where what it decodes will run, by mps_mtl_device(), if the object does.
std::shared_ptr<const mps::Coder> to_coder(const py::object& object);

// By the arguments `coder` and `device`.
mps::KernelPtr kernel_of_coder(const std::string& kind, const Arguments& arguments);

// A class of the core that has a type is several classes in Python, which are made of it.
template <typename T>
std::shared_ptr<T> as_class(const mps::KernelPtr& kernel) {
  if constexpr (requires { typename T::Core; }) {
    return std::make_shared<T>(static_cast<const typename T::Core&>(*kernel));
  } else {
    return std::static_pointer_cast<T>(kernel);
  }
}
// How a copy becomes an object of the class of this name.
using ToPython = py::object (*)(const mps::KernelPtr& kernel);
void remember_class(const std::string& name, ToPython to_python);

// A kernel's constructor, with the form that takes a coder.
template <typename Class, typename Make>
void def_kernel(Class& cls, std::vector<std::string> forms, const char* doc, Make make) {
  using T = typename Class::type;
  const auto name = py::cast<std::string>(cls.attr("__name__"));
  remember_class(name, [](const mps::KernelPtr& kernel) { return py::cast(as_class<T>(kernel)); });
  forms.emplace_back("coder: typing.Any, device: MTLDevice | MLCDevice | str | None = None");
  def_init(cls, forms, doc, [make, name](const Arguments& arguments) -> std::shared_ptr<T> {
    if (!arguments.given("coder")) return make(arguments);
    return as_class<T>(kernel_of_coder(name, arguments));
  });
}

inline constexpr const char* kDevice = "device: MTLDevice | MLCDevice | str";

// A kernel that is made of its device alone.
template <typename T, typename Base>
BoundClass<T, Base, std::shared_ptr<T>> bind_plain(py::module_& module, const char* name,
                                                   const char* doc, const char* detail) {
  auto cls = BoundClass<T, Base, std::shared_ptr<T>>(module, name, doc);
  def_kernel(cls, {kDevice}, detail, [](const Arguments& arguments) {
    return std::make_shared<T>(to_mps_device(arguments["device"]));
  });
  return cls;
}

// `encode` takes the object and a coder, `copy` the object and a device or None.
template <typename Class, typename Encode, typename Copy>
void def_coding(Class& cls, Encode encode, Copy copy) {
  using Self = typename Class::type;
  cls.def("encode_with_coder", encode, py::arg("coder"),
          "Writes all properties into a coder, such as NSKeyedArchiver; of a data source what it "
          "gives now.");
  cls.def("__copy__", [copy](Self& self) { return copy(self, py::none()); }, "As copy().");
  cls.def(
      "__deepcopy__", [copy](Self& self, const py::object&) { return copy(self, py::none()); },
      py::arg("memo"), "As copy().");
  def_method(
      cls, "copy", "typing.Self", {"device: MTLDevice | MLCDevice | str | None = None"},
      "An independent kernel with the same properties, on this device or another one. A data "
      "source is copied by its copy(device=) or __copy__, or shared when it has neither.",
      [copy](Self& self, const Arguments& arguments) { return copy(self, arguments["device"]); });
}

// Descriptors as dictionaries, for graphs.
template <typename Class>
void def_coded(Class& cls) {
  using Self = typename Class::type;
  cls.def("_coded", [](const Self& self) { return from_coded(mps::coded(self)); });
  cls.def_static("_decoded", [](const py::object& values) {
    Self decoded;
    mps::decode(to_coded(values), decoded);
    return decoded;
  });
}

// The same of a described one.
template <typename Self>
void def_coded(py::module_& module, const char* name) {
  auto cls = described<Self>(module, name);
  cls.def("_coded", [](const Self& self) { return from_coded(mps::coded(self)); });
  cls.def_static("_decoded", [](const py::object& values) {
    Self decoded;
    mps::decode(to_coded(values), decoded);
    return cast_described(typeid(Self), decoded);
  });
}

}  // namespace traingraph::python
