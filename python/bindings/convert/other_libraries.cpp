// Objects of other libraries, which the package knows words for.
#include "convert/other_libraries.h"

#include "convert/convert.h"

namespace traingraph::python {

std::optional<std::string> advice_on_other_library(py::handle value) {
  try {
    const py::object meant =
        py::module_::import("traingraph._other_libraries").attr("meant_by_object")(value);
    if (meant.is_none()) return std::nullopt;
    const std::string text = printable(meant);
    return text.empty() ? text : "; did you mean " + text + "?";
  } catch (py::error_already_set& error) {  // an object that says nothing of itself
    if (!error.matches(PyExc_Exception)) throw;
    return std::nullopt;
  }
}

}  // namespace traingraph::python
