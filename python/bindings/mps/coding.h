#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "classes/described_class.h"
#include "mps/mps_bindings.h"

// Copies and bytes of kernels, over <traingraph/mps/coding.h>.
namespace traingraph::python {

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

// `encode` takes the object and a coder, `copy` the object and a device or None.
template <typename Class, typename Encode, typename Copy>
void def_coding(Class& cls, Encode encode, Copy copy) {
  using Self = typename Class::type;
  def_method(
      cls, "encode_with_coder", "None", {"coder: Any"},
      "Writes all properties into a coder, such as NSKeyedArchiver; of a data source what "
      "it gives now.",
      [encode](Self& self, const Arguments& arguments) { encode(self, arguments["coder"]); });
  cls.def("__copy__", [copy](Self& self) { return copy(self, py::none()); }, "As copy().");
  def_method(cls, "__deepcopy__", "typing.Self", {"memo: Any"}, "As copy().",
             [copy](Self& self, const Arguments&) { return copy(self, py::none()); });
  def_method(
      cls, "copy", "typing.Self", {"device: MTLDevice | MLCDevice | str | None = None"},
      "An independent kernel with the same properties, on this device or another one. A data "
      "source is copied by its copy(device=) or __copy__, or shared when it has neither.",
      [copy](Self& self, const Arguments& arguments) { return copy(self, arguments["device"]); });
}

}  // namespace traingraph::python
