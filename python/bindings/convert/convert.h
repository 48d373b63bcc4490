// Checked conversions of Python arguments to C++ values: to_ functions by type, and the templates
// convert and convert_list.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <traingraph/class_description.h>
#include <traingraph/traingraph.h>

#include "convert/enums.h"

namespace py = pybind11;

namespace traingraph::python {

// Where a value stands, for messages: "[MLCDropoutLayer] expected rate: float but got 'str'".
struct Where {
  std::string subject;
  std::string name;
  std::string expected;

  // "shape[1]: int" of "shape: Sequence[int]".
  Where of_item(std::size_t number) const;
};

// TypeError; asks "did you mean relu()?" when a factory was passed without calling it.
[[noreturn]] void refuse(const Where& where, py::handle value);
// "; …" where the argument or property is a learning rate, and the value a schedule of rates.
std::string advice_on_rate(std::string_view name, py::handle value);
// InvalidArgument that lists the members of an enumeration that are accepted, '"sum", "mean"', for
// any other value or name.
void check_accepted(const char* type, py::handle value, const Where& where,
                    const std::string& accepted);

// Devices also as text, types and data types also as NumPy's.
Device to_device(py::handle value,
                 const Where& where = {"MLCDevice", "a device", "MLCDevice | str"});
DataType to_data_type(py::handle value);
std::int64_t to_integer(py::handle value, const Where& where, std::int64_t least = INT64_MIN,
                        std::int64_t most = INT64_MAX);
double to_number(py::handle value, const Where& where);
bool to_bool(py::handle value, const Where& where);
// Not one whose call does nothing but make a coroutine or a generator, which nobody runs.
py::object to_callable(py::handle value, const Where& where);
// Raises TypeError for such an answer of a function, which it closes.
void check_is_done(const py::object& answer, const Where& where);
// A str as UTF-8, which has no half of a pair of surrogates. Raises TypeError, InvalidArgument.
std::string to_text(py::handle value, const Where& where);
// A text, or what str() gives, for a message: halves of pairs are escaped.
std::string printable(py::handle value);
// What ascii() gives, for a message.
std::string printable_ascii(py::handle value);
Shape to_shape(py::handle value, const Where& where);
Pair to_pair(py::handle value, const Where& where);
Padding to_padding(py::handle value, const Where& where);
py::object from_padding(PaddingPolicy policy, std::int64_t y, std::int64_t x);

// What a dictionary holds now. Converting one value may run Python code, or let another thread run,
// that changes the dictionary.
using DictItems = std::vector<std::pair<py::object, py::object>>;
DictItems items_of(const py::dict& dictionary);
// The items of a list, tuple or other iterable, but not of a string.
std::vector<py::object> to_items(py::handle value, const Where& where);

// Whether a list of objects, or of such lists, has None, which pybind11 takes for a null pointer.
template <typename T>
bool has_none(const T&) {
  return false;
}
template <typename T>
bool has_none(const std::shared_ptr<T>& item) {
  return item == nullptr;
}
template <typename T>
bool has_none(const std::vector<T>& items) {
  return std::ranges::any_of(items, [](const T& item) { return has_none(item); });
}

template <typename T>
std::vector<T> convert_list(py::handle value, const Where& where);
template <typename T>
constexpr bool kIsVector = false;
template <typename T>
constexpr bool kIsVector<std::vector<T>> = true;

template <typename T>
T convert(py::handle value, const Where& where) {
  if constexpr (std::is_same_v<T, bool>) {
    return to_bool(value, where);
  } else if constexpr (std::is_integral_v<T>) {
    using Range = std::numeric_limits<T>;
    if constexpr (sizeof(T) < sizeof(std::int64_t)) {
      return static_cast<T>(to_integer(value, where, Range::min(), Range::max()));
    } else {
      return static_cast<T>(to_integer(value, where, std::is_signed_v<T> ? INT64_MIN : 0));
    }
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(to_number(value, where));
  } else if constexpr (std::is_same_v<T, std::string>) {
    return to_text(value, where);
  } else if constexpr (std::is_same_v<T, Shape>) {
    return to_shape(value, where);
  } else if constexpr (std::is_same_v<T, Pair>) {
    return to_pair(value, where);
  } else if constexpr (std::is_same_v<T, Padding>) {
    return to_padding(value, where);
  } else if constexpr (std::is_same_v<T, Device>) {
    return to_device(value, where);
  } else if constexpr (std::is_same_v<T, py::object>) {
    return py::reinterpret_borrow<py::object>(value);
  } else if constexpr (BoundEnum<T>) {
    return py::cast<T>(value);
  } else {
    if (value.is_none()) {
      refuse(where, value);
    }
    if constexpr (kIsVector<T>) {
      // What may be read only once is not tried before, nor are lists of that, nor what a class of
      // the program's may say of its own length.
      const bool again = PyList_CheckExact(value.ptr()) || PyTuple_CheckExact(value.ptr());
      using Item = typename T::value_type;
      // pybind11 would take truth values for numbers.
      if (!again || kIsVector<Item> || std::is_arithmetic_v<Item>) {
        return convert_list<typename T::value_type>(value, where);
      }
    }
    try {
      T made = py::cast<T>(value);
      if (!has_none(made)) return made;
    } catch (const py::cast_error&) {
    }
    if constexpr (kIsVector<T>) {
      return convert_list<typename T::value_type>(value, where);
    } else {
      refuse(where, value);
    }
  }
}

template <typename T>
std::vector<T> convert_list(py::handle value, const Where& where) {
  std::vector<T> result;
  Where place = where.of_item(0);
  for (const py::object& item : to_items(value, where)) {
    place.name = where.name + "[" + std::to_string(result.size()) + "]";
    result.push_back(convert<T>(item, place));
  }
  return result;
}

}  // namespace traingraph::python
