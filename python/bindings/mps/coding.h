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

// Raises TypeError for an object without encode().
void expect_coder(const py::object& object, const std::string& subject);

// One that says where what it decodes will run, by mps_mtl_device(), if the object does.
std::shared_ptr<const mps::Coder> to_coder(const py::object& object);

// What an object that reads bytes may raise for damaged ones.
bool is_damage(const py::error_already_set& error);
// What `read` gives, where Python reads; of what it raises, damage becomes an InvalidArgument.
template <class Read>
auto without_damage(Read read) {
  try {
    return read();
  } catch (const py::error_already_set& error) {
    if (!is_damage(error)) throw;
    const std::string reason = printable(error.value());
    throw InvalidArgument(reason.substr(0, reason.find('\n')));
  }
}

}  // namespace traingraph::python
