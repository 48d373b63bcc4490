// Makes IntEnum and IntFlag classes of the table of enumerations, and converts members, names and
// raw values.
#include "convert/enums.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <string>
#include <vector>

#include "convert/convert.h"
#include "convert/enum_table.h"
#include "convert/python.h"

namespace traingraph::python {

std::string type_name(py::handle value) { return Py_TYPE(value.ptr())->tp_name; }

// Not its __name__, which a metaclass of the program's may answer.
std::string class_name(PyObject* type) {
  const std::string name = reinterpret_cast<PyTypeObject*>(type)->tp_name;
  return name.substr(name.rfind('.') + 1);
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

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
      const char* const digits = name.data() + equals + 3;
      std::from_chars(digits, name.data() + name.size(), value);
      name.resize(equals);
    }
    cases.push_back({name, value, description});
  }
  return cases;
}

// '"none", "sum", "mean"'
std::string choices(const Registered& entry) {
  std::string list;
  for (const EnumCase& item : entry.cases) {
    list += (list.empty() ? "\"" : ", \"") + lower_case(item.name) + "\"";
  }
  return list;
}

std::vector<std::string> names_of(const Registered& entry) {
  std::vector<std::string> names;
  for (const EnumCase& item : entry.cases) names.push_back(lower_case(item.name));
  return names;
}

bool lookup(const Registered& entry, std::string_view text, long& value) {
  const std::string wanted = lower_case(text);
  const auto found = std::ranges::find_if(
      entry.cases, [&wanted](const EnumCase& item) { return lower_case(item.name) == wanted; });
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
    const std::string_view name = std::string_view(text).substr(begin, end - begin);
    if (!lookup(entry, name, value)) {
      throw InvalidArgument("[" + entry.row->name + "] expected one of " + choices(entry) +
                            " but got \"" + text + "\"" +
                            did_you_mean(name, names_of(entry), "\""));
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
    const std::string name = printable(dtype.attr("name"));
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
  const auto is_known = [&](long one) {
    return row.is_set ? (one & ~entry.all) == 0
                      : std::ranges::find(entry.cases, one, &EnumCase::value) != entry.cases.end();
  };
  const bool is_member = reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())) == entry.type;
  // Exact: booleans and members of other enumerations are numbers too, but never what was meant.
  if (is_member || PyLong_CheckExact(value.ptr())) {
    int overflow = 0;
    const long result = PyLong_AsLongAndOverflow(value.ptr(), &overflow);
    if (overflow == 0 && is_known(result)) return result;
    // int.__new__ makes objects of the class that are no members.
    if (is_member && row.is_set && overflow == 0) {
      throw InvalidArgument("[" + row.name + "] expected " + choices(entry) +
                            " but got the unknown bits " + std::to_string(result & ~entry.all));
    }
    throw InvalidArgument("[" + row.name + "] expected one of " + choices(entry) +
                          " but got the raw value " + printable(value));
  }
  const bool is_data_type = entry.type == enum_class("MLCDataType").ptr();
  long result = 0;
  if (PyUnicode_Check(value.ptr())) {
    const std::string text = printable(value);
    return is_data_type && text == "bool" ? static_cast<long>(DataType::kBoolean)
                                          : from_text(entry, text);
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
