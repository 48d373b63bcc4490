// Conversion of values of described classes between C++ and Python: one row per C++ type.
#pragma once

#include <any>
#include <string>
#include <typeinfo>

#include <traingraph/class_description.h>

#include "convert/convert.h"
#include "convert/enums.h"

namespace traingraph::python {

struct PythonType {
  std::string taken;  // annotation of an argument
  std::string given;  // annotation of a property
  // TypeError or ValueError where the value does not fit.
  std::any (*load)(py::handle value, const Where& where);
  // `owner` has what the value is a part of.
  py::object (*cast)(const std::any& value, py::handle owner);
};

// Numbers, texts, tensors and ML Compute's enumerations, before anything is described.
void remember_plain_types();
void remember_array_types();
// For the types of a part of the surface.
void remember_type(const std::type_info& type, PythonType row);

// With " | None" where None is allowed.
std::string taken_annotation(const ValueType& type);
std::string given_annotation(const ValueType& type);
// Whether it is a number, a truth value or a text.
bool is_plain(const ValueType& type);
std::any load_value(const ValueType& type, py::handle value, const Where& where);
py::object cast_value(const ValueType& type, const std::any& value, py::handle owner);
// As it is written in Python: "1e-05", "MLCPoolingType.MAX".
std::string text_of(const ValueType& type, const std::any& value);

template <typename T>
PythonType converted(std::string taken, std::string given) {
  return {
      std::move(taken), std::move(given),
      [](py::handle value, const Where& where) { return std::any(convert<T>(value, where)); },
      [](const std::any& value, py::handle) { return py::cast(std::any_cast<const T&>(value)); }};
}
template <typename T>
PythonType converted(const std::string& name) {
  return converted<T>(name, name);
}
template <BoundEnum E>
PythonType enumeration() {
  const std::string name = EnumName<E>::text;
  return converted<E>(name + " | str", name);
}

// `load` and `cast` are functions of Python's value and of Where, and of T.
template <typename T, typename Load, typename Cast>
void remember(const char* taken, const char* given, Load, Cast) {
  remember_type(typeid(T), {taken, given,
                            [](py::handle value, const Where& where) {
                              return std::any(T(Load{}(value, where)));
                            },
                            [](const std::any& value, py::handle) -> py::object {
                              return Cast{}(std::any_cast<const T&>(value));
                            }});
}
// Of arguments alone.
template <typename T, typename Load>
void remember_taken(const std::string& name, Load) {
  remember_type(typeid(T), {name, name,
                            [](py::handle value, const Where& where) {
                              return std::any(T(Load{}(value, where)));
                            },
                            nullptr});
}
// Of results alone.
template <typename T, typename Cast>
void remember_given(const std::string& name, Cast) {
  remember_type(typeid(T),
                {name, name, nullptr, [](const std::any& value, py::handle) -> py::object {
                   return Cast{}(std::any_cast<const T&>(value));
                 }});
}
template <typename T>
void remember(const char* name) {
  remember_type(typeid(T), converted<T>(name));
}
// A part of an object, which it belongs to.
template <typename T>
void remember_part(const char* name) {
  remember_type(typeid(T*), {name, name,
                             [](py::handle value, const Where& where) {
                               return std::any(&convert<T&>(value, where));
                             },
                             [](const std::any& value, py::handle owner) {
                               return py::cast(std::any_cast<T*>(value),
                                               py::return_value_policy::reference_internal, owner);
                             }});
}
// A list of values whose class is described or remembered.
template <typename T>
void remember_list(const std::string& name, const std::string& taken = "collections.abc.Sequence") {
  remember_type(typeid(std::vector<T>),
                {taken + "[" + name + "]", "list[" + name + "]",
                 [](py::handle value, const Where& where) -> std::any {
                   std::vector<T> items;
                   for (const py::object& item : to_items(value, where)) {
                     items.push_back(std::any_cast<T>(
                         load_value(ValueType{&typeid(T)}, item, where.of_item(items.size()))));
                   }
                   return items;
                 },
                 [](const std::any& value, py::handle owner) -> py::object {
                   py::list items;
                   for (const T& item : std::any_cast<const std::vector<T>&>(value)) {
                     items.append(cast_value(ValueType{&typeid(T)}, item, owner));
                   }
                   return items;
                 }});
}
template <BoundEnum... E>
void remember_enumerations() {
  (remember_type(typeid(E), enumeration<E>()), ...);
}

}  // namespace traingraph::python
