// Converts dictionaries by name to tensors and tensor data; keys must be declared names.
#include "convert/names.h"

#include "convert/data.h"
#include "convert/numpy_arrays.h"

namespace traingraph::python {
namespace {

std::string_view text_of(py::handle key, const char* subject, const char* argument) {
  if (!PyUnicode_Check(key.ptr())) {
    throw py::type_error(std::string("[") + subject + "] expected names as keys of " + argument +
                         " but got '" + Py_TYPE(key.ptr())->tp_name + "'");
  }
  Py_ssize_t size = 0;
  if (const char* const text = PyUnicode_AsUTF8AndSize(key.ptr(), &size)) {
    return {text, static_cast<std::size_t>(size)};
  }
  PyErr_Clear();
  to_text(key, {subject, std::string("a key of ") + argument, "str"});  // raises
  return {};
}

// A dict itself, or one made from another mapping.
py::dict dict_of(py::handle value, const char* subject, const char* argument) {
  if (value.is_none()) {
    return {};
  }
  if (PyDict_Check(value.ptr())) {
    return py::reinterpret_borrow<py::dict>(value);
  }
  if (PyMapping_Check(value.ptr()) == 0 || !py::hasattr(value, "keys")) {
    refuse({subject, argument, "a dict of names"}, value);
  }
  return py::dict(py::reinterpret_borrow<py::object>(value));
}

DataType declared_type(std::string_view name, const NamedTensors& declared, const char* subject,
                       const char* argument) {
  const auto found =
      std::ranges::find_if(declared, [name](const auto& entry) { return entry.first == name; });
  if (found != declared.end()) return found->second->descriptor().data_type;
  std::string names;
  std::vector<std::string> known;
  for (const auto& entry : declared) {
    known.push_back(entry.first);
    names += (names.empty() ? "'" : ", '") + entry.first + "'";
  }
  const bool is_output = std::string_view(argument).starts_with("outputs");
  const std::string none = std::string(" but none is declared; declare them by ") +
                           (is_output ? "add_outputs" : "add_inputs");
  throw InvalidArgument(std::string("[") + subject + "] expected declared names in " + argument +
                        (names.empty() ? none : ": " + names) + "; got '" + std::string(name) +
                        "'" + did_you_mean(name, known));
}

// Whether the data is that of these arrays, as they are now. No Python code runs meanwhile, so that
// what the dictionary lends stays.
bool is_of(const NamedData& data, const py::dict& items) {
  if (data.size() != items.size()) return false;
  auto known = data.begin();
  for (const auto& [key, value] : items) {
    const auto& [name, array] = *known++;
    Py_ssize_t size = 0;
    const char* const text =
        PyUnicode_Check(key.ptr()) ? PyUnicode_AsUTF8AndSize(key.ptr(), &size) : nullptr;
    if (text == nullptr) PyErr_Clear();
    const std::string_view given(text == nullptr ? "" : text, static_cast<std::size_t>(size));
    if (text == nullptr || given != name || !is_of_array(array, value)) return false;
  }
  return true;
}

}  // namespace

NamedTensors named_tensors(py::handle dictionary, const Where& where) {
  NamedTensors result;
  const py::dict items = dict_of(dictionary, where.subject.c_str(), where.name.c_str());
  for (const auto& [key, value] : items_of(items)) {
    result.emplace_back(text_of(key, where.subject.c_str(), where.name.c_str()),
                        convert<TensorPtr>(value, {where.subject, where.name, "MLCTensor values"}));
  }
  return result;
}

NamedData named_data(py::handle dictionary, const NamedTensors& declared, const char* subject,
                     const char* argument, const char* role, Access access) {
  const DictItems items = items_of(dict_of(dictionary, subject, argument));
  NamedData result;
  result.reserve(items.size());
  for (const auto& [key, value] : items) {
    const std::string_view name = text_of(key, subject, argument);
    const DataType type = declared_type(name, declared, subject, argument);
    const Target target{subject, role, name};
    result.emplace_back(name, access == Access::kRead ? readable_data(value, type, target)
                                                      : writable_data(value, type, target));
  }
  return result;
}

void renew_data(NamedData& data, py::handle dictionary, const NamedTensors& declared,
                const char* subject, const char* argument, const char* role) {
  const py::dict items = dict_of(dictionary, subject, argument);
  if (is_of(data, items)) return;
  std::size_t count = 0;
  for (const auto& [key, value] : items_of(items)) {
    const std::string_view name = text_of(key, subject, argument);
    if (count == data.size()) data.emplace_back();
    auto& [known, array] = data[count++];
    if (known == name && is_of_array(array, value)) continue;
    const DataType type = declared_type(name, declared, subject, argument);
    array = readable_data(value, type, {subject, role, name});
    known = name;
  }
  data.resize(count);
}

void refuse_one_array(const NamedTensors& declared, const Where& where, std::string_view role) {
  if (declared.empty() && role.ends_with("loss label weight")) {
    throw InvalidArgument("[" + where.subject + "] expected no weights in " + where.name +
                          ", as none are declared; nn.model(weights=True) declares 'w', and "
                          "add_inputs any");
  }
  if (declared.empty() && role.ends_with("loss label")) {
    throw InvalidArgument(
        "[" + where.subject + "] expected no labels" +
        (where.name == "labels" ? "" : " in " + where.name) +
        ", as the loss declares none, but got some; pass no labels, or None behind "
        "the inputs of a pair");
  }
  const std::string count = declared.empty() ? "none" : std::to_string(declared.size());
  throw InvalidArgument("[" + where.subject + "] expected a dictionary of declared " + where.name +
                        ", as " + count + " are declared by add_inputs");
}

}  // namespace traingraph::python
