// Binds archives of kernels and descriptors, copies, and coders that are Python objects.
#include "mps/coding.h"

#include <algorithm>
#include <optional>

#include <traingraph/mps/classes.h>

#include "classes/described_class.h"
#include "classes/python_types.h"

namespace traingraph::python {
namespace {

std::string coded_text(py::handle value) { return to_text(value, {"NSCoder", "a text", "str"}); }

bool is_graph(const mps::Kernel& kernel) {
  return dynamic_cast<const mps::NNGraph*>(&kernel) != nullptr;
}

// On this device, or None: its own.
py::object copied_kernel(mps::Kernel& kernel, const py::object& device) {
  const mps::Device on = idle(device.is_none() ? kernel.device() : to_mps_device(device));
  if (is_graph(kernel)) return python_coding("copied", "graph_coding")(py::cast(&kernel), on);
  return cast_made(kernel.kind(), kernel.copy(on));
}

void encode_kernel(mps::Kernel& kernel, const py::object& object) {
  expect_coder(object, "MPSKernel.encode_with_coder");
  if (is_graph(kernel)) {
    python_coding("encode", "graph_coding")(py::cast(&kernel), object);
    return;
  }
  PythonCoder coder(object);
  kernel.encode_with_coder(coder);
}

// A pickle is the archive, and the name of the device that it is read on.
py::tuple reduced(py::handle self) {
  const bool is_placed = py::hasattr(self, "device");  // a descriptor is not
  const std::string device = is_placed ? to_mps_device(self.attr("device")).text() : "cpu";
  const py::module_ coding = py::module_::import("traingraph.mps.coding");
  const py::object data =
      coding.attr("NSKeyedArchiver").attr("archived_data")(py::arg("with_root_object") = self);
  const py::object read = coding.attr("MPSKeyedUnarchiver").attr("unarchive_object");
  const py::object partial = py::module_::import("functools").attr("partial");
  return py::make_tuple(partial(read, py::arg("with_data") = data, py::arg("device") = device),
                        py::tuple());
}

void def_pickles(py::handle cls) {
  const FormBody reduce = [](py::detail::function_call& call, const Arguments&, const Capture&) {
    return reduced(call.args[0]).release();
  };
  define(cls, Signature::Kind::kMethod, "_reduced", "tuple[Any, ...]", parsed({""}),
         "What pickles keep: the archive, and the device's name.", reduce, Capture(nullptr));
}

void def_kernel_coding(BoundClass<mps::Kernel, mps::KernelPtr> cls) {
  using mps::Kernel;
  def_method(cls, "encode_with_coder", "None", {"coder: Any"},
             "Writes all properties into a coder, such as NSKeyedArchiver; of a data source what "
             "it gives now.",
             [](Kernel& self, const Arguments& given) { encode_kernel(self, given["coder"]); });
  def_pickles(cls);
  cls.def("__copy__", [](Kernel& self) { return copied_kernel(self, py::none()); }, "As copy().");
  def_method(cls, "__deepcopy__", "typing.Self", {"memo: Any"}, "As copy().",
             [](Kernel& self, const Arguments&) { return copied_kernel(self, py::none()); });
  def_method(
      cls, "copy", "typing.Self", {"device: MTLDevice | MLCDevice | str | None = None"},
      "An independent kernel with the same properties, on this device or another one. A "
      "data source is copied by its copy(device=) or __copy__, or shared when it has "
      "neither.",
      [](Kernel& self, const Arguments& given) { return copied_kernel(self, given["device"]); });
}

class ProvidingCoder final : public PythonCoder, public mps::DeviceProvider {
 public:
  using PythonCoder::PythonCoder;
  mps::Device mps_mtl_device() const override {
    return to_mps_device(object_.attr("mps_mtl_device")());
  }
};

// As archives: a list may hold itself.
constexpr int kMostLevels = 64;

mps::CodedValue coded_below(int depth, py::handle value) {
  if (depth > kMostLevels) {
    throw InvalidArgument("expected at most " + std::to_string(kMostLevels) +
                          " levels of lists and dictionaries but got more");
  }
  if (value.is_none()) return nullptr;
  if (py::isinstance<py::bool_>(value)) return py::cast<bool>(value);
  if (py::isinstance<py::int_>(value)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    if (overflow == 0) return static_cast<std::int64_t>(number);
    throw InvalidArgument("expected a whole number of 64 bits but got " + printable(value));
  }
  if (py::isinstance<py::float_>(value)) return py::cast<double>(value);
  if (py::isinstance<py::str>(value)) return coded_text(value);
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value)) {
    mps::CodedValue::List list;
    for (const py::handle one : value) list.push_back(coded_below(depth + 1, one));
    return list;
  }
  if (!py::isinstance<py::dict>(value)) {
    throw InvalidArgument("expected numbers, texts, lists or dictionaries but got " +
                          class_of(value));
  }
  mps::CodedValue::Entries entries;
  for (const auto& [name, one] : items_of(py::reinterpret_borrow<py::dict>(value))) {
    entries.push_back({coded_text(py::str(name)), coded_below(depth + 1, one)});
  }
  return entries;
}

mps::CodedValue coded_object(const ClassDescription& description, py::handle self) {
  return mps::coded(
      {description.type},
      load_described(*description.type, self, {description.name, "self", description.name}));
}

// A descriptor as a dictionary, for graphs; one with a coder's form by itself, too.
void def_coded(const py::module_& module, const ClassDescription& description) {
  py::object cls = module.attr(description.name.c_str());
  const Capture capture(&description);
  const FormBody coded = [](py::detail::function_call& call, const Arguments&,
                            const Capture& captured) {
    return from_coded(coded_object(*captured.get<const ClassDescription*>(), call.args[0]))
        .release();
  };
  define(cls, Signature::Kind::kMethod, "_coded", "Any", parsed({""}), "", coded, capture);
  def_factory(cls, "_decoded", "Any", {"values: Any"}, "",
              [&description](const Arguments& arguments) {
                const ValueType type{description.type};
                const mps::CodedValue values = to_coded(arguments["values"]);
                return cast_value(type, mps::decoded(type, description.name, values), {});
              });
  const auto has_coder = [](const Form& form) { return form.arguments.front().name == "coder"; };
  if (std::ranges::none_of(description.forms, has_coder)) return;
  const FormBody encode = [](py::detail::function_call& call, const Arguments& arguments,
                             const Capture& captured) {
    expect_coder(arguments["coder"],
                 captured.get<const ClassDescription*>()->name + ".encode_with_coder");
    PythonCoder coder(arguments["coder"]);
    const mps::CodedValue fields =
        coded_object(*captured.get<const ClassDescription*>(), call.args[0]);
    for (const auto& [key, value] : *fields.as<mps::CodedValue::Entries>()) {
      coder.encode(value, key);
    }
    return py::none().release();
  };
  define(cls, Signature::Kind::kMethod, "encode_with_coder", "None", parsed({"coder: Any"}),
         "Writes all properties into a coder, such as NSKeyedArchiver.", encode, capture);
  def_pickles(cls);
}

}  // namespace

bool is_damage(const py::error_already_set& error) {
  for (PyObject* type : {PyExc_ArithmeticError, PyExc_AttributeError, PyExc_LookupError,
                         PyExc_RuntimeError, PyExc_TypeError, PyExc_ValueError}) {
    if (error.matches(type)) return true;
  }
  return false;
}

mps::CodedValue to_coded(py::handle value) { return coded_below(0, value); }

py::object from_coded(const mps::CodedValue& value) {
  if (const auto* const truth = value.as<bool>()) return py::bool_(*truth);
  if (const auto* const whole = value.as<std::int64_t>()) return py::int_(*whole);
  if (const auto* const number = value.as<double>()) return py::float_(*number);
  if (const auto* const text = value.as<std::string>()) return py::str(*text);
  if (const auto* const list = value.as<mps::CodedValue::List>()) {
    py::list made;
    for (const mps::CodedValue& one : *list) made.append(from_coded(one));
    return made;
  }
  const auto* const entries = value.as<mps::CodedValue::Entries>();
  if (entries == nullptr) return py::none();
  py::dict made;
  for (const auto& [name, one] : *entries) made[py::str(name)] = from_coded(one);
  return made;
}

void PythonCoder::encode(const mps::CodedValue& value, const std::string& key) {
  object_.attr("encode")(from_coded(value), py::arg("for_key") = key);
}

mps::CodedValue PythonCoder::decode(const std::string& key) const {
  return without_damage([&] { return to_coded(object_.attr("decode")(py::arg("for_key") = key)); });
}

void expect_coder(const py::object& object, const std::string& subject) {
  if (!py::hasattr(object, "encode")) refuse({subject, "coder", "an object with encode()"}, object);
}

std::shared_ptr<const mps::Coder> to_coder(const py::object& object) {
  if (py::hasattr(object, "mps_mtl_device")) return std::make_shared<ProvidingCoder>(object);
  return std::make_shared<PythonCoder>(object);
}

void bind_mps_coding(py::module_& module) {
  // Of the class that all kernels derive from.
  def_kernel_coding(
      py::reinterpret_borrow<BoundClass<mps::Kernel, mps::KernelPtr>>(module.attr("MPSKernel")));
  for (const ClassDescription& description : mps::value_classes()) {
    if (mps::is_coded(*description.type)) def_coded(module, description);
  }
  def_function(module, "_archive", "bytes", {"kind: str, values: dict[str, Any]"}, "",
               [](const Arguments& given) {
                 mps::KeyedArchiver archiver;
                 for (const auto& [key, value] : items_of(given.get<py::dict>("values"))) {
                   archiver.encode(to_coded(value), coded_text(key));
                 }
                 return py::bytes(archiver.archive(given.get<std::string>("kind")));
               });
  def_function(
      module, "_archived", "tuple[Any, ...]", {"data: bytes"}, "", [](const Arguments& given) {
        const py::object data = given["data"];
        const auto bytes = convert<std::string_view>(data, {"MPSKeyedUnarchiver", "data", "bytes"});
        const mps::KeyedUnarchiver archive(bytes, mps::Device::named("cpu"));
        return py::make_tuple(archive.kind(), from_coded(archive.values()));
      });
  def_function(module, "_coded_names", "tuple[Any, ...]", {"kind: str"}, "",
               [](const Arguments& given) {
                 const mps::CodedNames names = mps::coded_names(given.get<std::string>("kind"));
                 return py::make_tuple(names.arguments, names.properties);
               });
}

}  // namespace traingraph::python
