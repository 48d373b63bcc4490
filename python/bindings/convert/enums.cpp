// Makes IntEnum and IntFlag classes of the table of enumerations, and converts members, names and
// raw values.
#include "convert/enums.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string>
#include <vector>

#include "convert/convert.h"
#include "convert/enum_table.h"
#include "convert/python.h"

namespace traingraph::python {

std::string type_name(py::handle value) { return Py_TYPE(value.ptr())->tp_name; }

namespace {

struct EnumCase {
  std::string name;
  long value;
  std::string description;  // empty where Apple has none
};
struct Registered {
  const EnumRow* row;
  std::vector<EnumCase> cases;
  PyObject* type;  // kept for the life of the process
  long all = 0;    // every flag
};
std::vector<Registered> registered;

const Registered& find(std::string_view type) {
  return *std::ranges::find_if(registered,
                               [type](const Registered& r) { return r.row->name == type; });
}

std::vector<EnumCase> cases_of(std::string_view text) {
  std::vector<EnumCase> cases;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 2) {
    end = std::min(text.find(", ", begin), text.size());
    std::string name(text.substr(begin, end - begin)), description;
    if (const std::size_t colon = name.find(": "); colon != std::string::npos) {
      description = name.substr(colon + 2);
      name.resize(colon);
    }
    long value = cases.empty() ? 0 : cases.back().value + 1;
    if (const std::size_t equals = name.find(" = "); equals != std::string::npos) {
      value = std::stol(name.substr(equals + 3));
      name.resize(equals);
    }
    cases.push_back({name, value, description});
  }
  return cases;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

// '"none", "sum", "mean"'
std::string choices(const Registered& entry) {
  std::string list;
  for (const EnumCase& item : entry.cases) {
    list += (list.empty() ? "\"" : ", \"") + lower(item.name) + "\"";
  }
  return list;
}

bool lookup(const Registered& entry, std::string_view text, long& value) {
  const std::string wanted = lower(text);
  const auto found = std::ranges::find_if(
      entry.cases, [&wanted](const EnumCase& item) { return lower(item.name) == wanted; });
  if (found == entry.cases.end()) return false;
  value = found->value;
  return true;
}

// One name, or for option sets several joined by "|".
long from_text(const Registered& entry, const std::string& text) {
  long result = 0;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const auto end = entry.row->is_set ? std::min(text.find('|', begin), text.size()) : text.size();
    long value = 0;
    if (!lookup(entry, std::string_view(text).substr(begin, end - begin), value)) {
      throw InvalidArgument("[" + entry.row->name + "] expected one of " + choices(entry) +
                            " but got \"" + text + "\"");
    }
    result |= value;
    begin = end + 1;
  }
  return result;
}

// NumPy's types and dtypes, as far as data types are concerned.
bool from_numpy(py::handle value, long& result) {
  try {
    const py::object dtype = py::module_::import("numpy").attr("dtype")(value);
    const auto name = py::cast<std::string>(dtype.attr("name"));
    return enum_lookup("MLCDataType", name == "bool" ? "boolean" : name, result);
  } catch (py::error_already_set&) {
    return false;
  }
}

void add(py::module_& module, const EnumRow& row) {
  py::list members;
  Registered entry{&row, cases_of(row.cases), nullptr};
  for (const EnumCase& item : entry.cases) {
    members.append(py::make_tuple(item.name, item.value));
    entry.all |= item.value;
  }
  const py::object base = py::module_::import("enum").attr(row.is_set ? "IntFlag" : "IntEnum");
  py::object type = base(row.name, members, py::arg("module") = "traingraph._core",
                         py::arg("qualname") = row.name);
  type.attr("__doc__") = row.doc;
  for (const EnumCase& item : entry.cases) {
    if (item.description.empty()) continue;
    type.attr(item.name.c_str()).attr("_debug_description") = item.description;
  }
  module.attr(row.name.c_str()) = type;
  entry.type = type.release().ptr();
  registered.push_back(std::move(entry));
}

}  // namespace

py::handle enum_class(const char* type) { return find(type).type; }

bool enum_lookup(const char* type, const std::string& text, long& value) {
  return lookup(find(type), text, value);
}

py::object enum_member(const char* type, long value) {
  return py::reinterpret_borrow<py::object>(find(type).type)(value);
}

long enum_value(const char* type, py::handle value) {
  const Registered& entry = find(type);
  const EnumRow& row = *entry.row;
  if (reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())) == entry.type) {
    const long result = PyLong_AsLong(value.ptr());
    if (row.is_set && (result & ~entry.all) != 0) {
      throw InvalidArgument("[" + row.name + "] expected " + choices(entry) +
                            " but got the unknown bits " + std::to_string(result & ~entry.all));
    }
    return result;
  }
  const bool is_data_type = entry.type == enum_class("MLCDataType").ptr();
  long result = 0;
  if (py::isinstance<py::str>(value)) {
    const std::string text = printable(value);
    return is_data_type && text == "bool" ? static_cast<long>(DataType::kBoolean)
                                          : from_text(entry, text);
  }
  // Exact: booleans and members of other enumerations are numbers too, but never what was meant.
  if (PyLong_CheckExact(value.ptr())) {
    result = PyLong_AsLong(value.ptr());
    const bool known =
        row.is_set ? (result & ~entry.all) == 0
                   : std::ranges::find(entry.cases, result, &EnumCase::value) != entry.cases.end();
    if (!known || PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      throw InvalidArgument("[" + row.name + "] expected one of " + choices(entry) +
                            " but got the raw value " + py::cast<std::string>(py::str(value)));
    }
    return result;
  }
  if (is_data_type && !value.is_none() && from_numpy(value, result)) {
    return result;
  }
  throw py::type_error("[" + row.name + "] expected one of " + choices(entry) + " but got '" +
                       type_name(value) + "'");
}

void bind_enums(py::module_& module) {
  for (const EnumRow& row : enum_table()) add(module, row);
}

}  // namespace traingraph::python
