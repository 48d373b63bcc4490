// Converts Python arguments to numbers, texts, shapes, pairs and padding; errors name the function
// and the argument.
#include "convert/convert.h"

#include "convert/other_libraries.h"

namespace traingraph::python {
namespace {

// "softmax_cross_entropy" for the bound factory itself, empty for anything that is not callable.
std::string uncalled(py::handle value) {
  PyObject* const object = value.ptr();
  if (PyType_Check(object)) return class_name(object);
  if (PyCFunction_Check(object) || PyFunction_Check(object) || PyMethod_Check(object)) {
    return printable(value.attr("__name__"));
  }
  return {};
}

// Where Python raised because the value is of another kind; what its own code raises goes on.
[[noreturn]] void refuse_raised(const Where& where, py::handle value) {
  for (PyObject* kind : {PyExc_TypeError, PyExc_ValueError, PyExc_NotImplementedError}) {
    if (PyErr_ExceptionMatches(kind) == 0) continue;
    PyErr_Clear();
    refuse(where, value);
  }
  throw py::error_already_set();
}

[[noreturn]] void out_of_range(const Where& where, std::int64_t number) {
  throw InvalidArgument("[" + where.subject + "] expected " + where.name +
                        " of at least 0 but got " + std::to_string(number));
}

constexpr const char* kCoroutine = "a coroutine";
constexpr const char* kGenerator = "a generator";

// What a call of this makes instead of running its code; null: nothing of that kind.
const char* made_by(py::handle value) {
  PyObject* function = value.ptr();
  py::object call;
  if (!PyFunction_Check(function) && !PyMethod_Check(function) && !PyCFunction_Check(function)) {
    call = py::getattr(value, "func", py::none());  // of functools.partial
    if (!PyFunction_Check(call.ptr()) && !PyMethod_Check(call.ptr())) {
      call = py::getattr(py::type::of(value), "__call__", py::none());
    }
    function = call.ptr();
  }
  if (PyMethod_Check(function)) function = PyMethod_GET_FUNCTION(function);
  if (!PyFunction_Check(function)) return nullptr;
  const int flags = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function))->co_flags;
  if ((flags & CO_COROUTINE) != 0) return kCoroutine;
  return (flags & (CO_GENERATOR | CO_ASYNC_GENERATOR)) != 0 ? kGenerator : nullptr;
}

[[noreturn]] void refuse_unfinished(const Where& where, const std::string& made, bool is_function) {
  throw py::type_error("[" + where.subject + "] expected " + where.name +
                       ": a function that has run when it returns but got " +
                       (is_function ? "one that makes " : "") + made + ", which nobody " +
                       (made == kCoroutine ? "awaits" : "goes through") + "; write def without " +
                       (made == kCoroutine ? "async" : "yield"));
}

// Booleans are numbers to Python, but never what was meant by one.
bool is_truth_value(py::handle value) {
  if (PyBool_Check(value.ptr())) return true;
  const bool is_plain = PyLong_CheckExact(value.ptr()) || PyFloat_CheckExact(value.ptr());
  return !is_plain && type_name(value).starts_with("numpy.bool");
}

}  // namespace

std::string advice_on_rate(std::string_view name, py::handle value) {
  const bool gives_rates = PyCallable_Check(value.ptr()) != 0 && !PyType_Check(value.ptr());
  if (name != "learning_rate" || !gives_rates) return "";
  return "; pass what gives the rate of each step to fit(schedule=…)";
}

void refuse(const Where& where, py::handle value) {
  const std::string name = uncalled(value);
  const std::string got = PyType_Check(value.ptr()) ? "the class " + name
                          : name.empty()            ? "'" + type_name(value) + "'"
                                                    : "the function " + name;
  std::string text =
      "[" + where.subject + "] expected " + where.name + ": " + where.expected + " but got " + got;
  const std::string advice = advice_on_other_library(value).value_or("");
  const bool may_be_called = !name.empty() && !name.starts_with("<lambda") && advice.empty();
  const bool may_be_item = !value.is_none() && !py::isinstance<py::dict>(value);
  const std::string on_rate = advice_on_rate(where.name, value);
  if (may_be_item && where.expected.starts_with("collections.abc.Sequence[")) {
    text += "; put it into a list";
  } else if (!on_rate.empty()) {
    text += on_rate;
  } else if (may_be_called) {
    text += "; did you mean " + name + "()?";
  }
  throw py::type_error(text + advice);
}

void check_accepted(const char* type, py::handle value, const Where& where,
                    const std::string& accepted) {
  std::string name;
  try {
    name = lower_case(printable(enum_member(type, enum_value(type, value)).attr("_name_")));
    if (accepted.find('"' + name + '"') != std::string::npos) return;
  } catch (const InvalidArgument&) {
    name = printable(value);
  }
  std::vector<std::string> names;
  for (std::size_t begin = accepted.find('"'); begin != std::string::npos;) {
    const std::size_t end = accepted.find('"', begin + 1);
    names.push_back(accepted.substr(begin + 1, end - begin - 1));
    begin = accepted.find('"', end + 1);
  }
  throw InvalidArgument("[" + where.subject + "] expected " + where.name + " of " + accepted +
                        " but got \"" + name + "\"" + did_you_mean(name, names, "\""));
}

std::int64_t to_integer(py::handle value, const Where& where, std::int64_t least,
                        std::int64_t most) {
  if (!PyIndex_Check(value.ptr()) || is_truth_value(value)) {
    refuse(where, value);
  }
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!index) refuse_raised(where, value);
  int overflow = 0;
  const std::int64_t number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow == 0 && number >= least && number <= most) return number;
  const auto bound = [](std::int64_t one) {
    return one == INT64_MAX ? "2^63 - 1" : one == INT64_MIN ? "-2^63" : std::to_string(one);
  };
  throw InvalidArgument("[" + where.subject + "] expected " + where.name + " from " + bound(least) +
                        " to " + bound(most) + " but got " + printable(index));
}

double to_number(py::handle value, const Where& where) {
  // float() reads text too; an argument must be a number already.
  if (PyUnicode_Check(value.ptr()) || PyBytes_Check(value.ptr()) ||
      PyNumber_Check(value.ptr()) == 0 || is_truth_value(value)) {
    refuse(where, value);
  }
  const double number = PyFloat_AsDouble(value.ptr());
  if (number == -1.0 && PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError) == 0) refuse_raised(where, value);
    PyErr_Clear();
    throw InvalidArgument("[" + where.subject + "] expected " + where.name +
                          " in the range of a float but got a larger int");
  }
  return number;
}

bool to_bool(py::handle value, const Where& where) {
  if (!is_truth_value(value)) {
    refuse(where, value);
  }
  const int truth = PyObject_IsTrue(value.ptr());
  if (truth < 0) refuse_raised(where, value);
  return truth == 1;
}

py::object to_callable(py::handle value, const Where& where) {
  const bool is_callable =
      PyCallable_Check(value.ptr()) != 0 && !py::isinstance<ExecutableGraph>(value);
  if (!is_callable) refuse(where, value);
  if (const char* const made = made_by(value)) refuse_unfinished(where, made, true);
  return py::reinterpret_borrow<py::object>(value);
}

void check_is_done(const py::object& answer, const Where& where) {
  PyObject* const object = answer.ptr();
  const bool is_coroutine = PyCoro_CheckExact(object) != 0;
  if (!is_coroutine && PyGen_CheckExact(object) == 0 && PyAsyncGen_CheckExact(object) == 0) return;
  if (PyAsyncGen_CheckExact(object) == 0) answer.attr("close")();
  refuse_unfinished(where, is_coroutine ? kCoroutine : kGenerator, false);
}

std::string to_text(py::handle value, const Where& where) {
  if (!PyUnicode_Check(value.ptr())) refuse(where, value);
  Py_ssize_t bytes = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(value.ptr(), &bytes);
  if (text != nullptr) return {text, static_cast<std::size_t>(bytes)};
  PyErr_Clear();
  throw InvalidArgument("[" + where.subject + "] expected " + where.name +
                        " that UTF-8 can say but got " + printable_ascii(value));
}

std::string printable(py::handle value) {
  const auto text = PyUnicode_Check(value.ptr())
                        ? py::reinterpret_borrow<py::object>(value)
                        : py::reinterpret_steal<py::object>(PyObject_Str(value.ptr()));
  // Not by the methods of a class of text, which may be the program's.
  const auto bytes = py::reinterpret_steal<py::object>(
      text ? PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace") : nullptr);
  if (bytes)
    return {PyBytes_AS_STRING(bytes.ptr()),
            static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
  // An int of too many digits, or a class that refuses.
  if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw py::error_already_set();
  PyErr_Clear();
  return "'" + type_name(value) + "'";
}

std::string printable_ascii(py::handle value) {
  const auto text = py::reinterpret_steal<py::object>(PyObject_ASCII(value.ptr()));
  if (text) return printable(text);
  if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw py::error_already_set();
  PyErr_Clear();
  return "'" + type_name(value) + "'";
}

Where Where::of_item(std::size_t number) const {
  Where item{subject, name + "[" + std::to_string(number) + "]", expected};
  // Of the outermost list in the annotation what is in its brackets, up to a comma.
  std::size_t begin = std::string::npos;
  for (const std::string_view list : {"Sequence[", "list[", "tuple["}) {
    const std::size_t found = expected.find(list);
    if (found != std::string::npos) begin = std::min(begin, found + list.size());
  }
  if (begin == std::string::npos) return item;
  std::size_t end = begin;
  for (int depth = 0; end < expected.size(); ++end) {
    const char c = expected[end];
    if (depth == 0 && (c == ',' || c == ']')) break;
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
  }
  item.expected = expected.substr(begin, end - begin);
  return item;
}

DictItems items_of(const py::dict& dictionary) {
  DictItems items;
  items.reserve(dictionary.size());
  for (const auto& [key, value] : dictionary) {
    items.emplace_back(py::reinterpret_borrow<py::object>(key),
                       py::reinterpret_borrow<py::object>(value));
  }
  return items;
}

std::vector<py::object> to_items(py::handle value, const Where& where) {
  if (PyUnicode_Check(value.ptr()) || PyBytes_Check(value.ptr()) || PyDict_Check(value.ptr())) {
    refuse(where, value);
  }
  const auto iterator = py::reinterpret_steal<py::object>(PyObject_GetIter(value.ptr()));
  if (!iterator) {
    PyErr_Clear();
    refuse(where, value);
  }
  std::vector<py::object> items;
  while (auto item = py::reinterpret_steal<py::object>(PyIter_Next(iterator.ptr()))) {
    items.push_back(std::move(item));
  }
  if (PyErr_Occurred() != nullptr) {
    // One of several axes, or a released one.
    if (PyMemoryView_Check(value.ptr())) refuse_raised(where, value);
    throw py::error_already_set();
  }
  return items;
}

Shape to_shape(py::handle value, const Where& where) {
  return convert_list<std::int64_t>(value, where);
}

Pair to_pair(py::handle value, const Where& where) {
  if (PyIndex_Check(value.ptr())) {
    const std::int64_t both = to_integer(value, where);
    return {both, both};
  }
  const Shape items = to_shape(value, where);
  if (items.size() != 2) {
    throw InvalidArgument("[" + where.subject + "] expected " + where.name +
                          ": 2 numbers but got " + std::to_string(items.size()));
  }
  return {items[0], items[1]};
}

Padding to_padding(py::handle value, const Where& where) {
  Padding padding{py::cast<PaddingPolicy>(value)};
  if (padding.policy == PaddingPolicy::kUsePaddingSize) {
    if (!py::hasattr(value, "_y")) {
      throw InvalidArgument("[" + where.subject + "] expected " + where.name +
                            " with sizes but got USE_PADDING_SIZE alone; write "
                            "MLCPaddingPolicy.sized(y=1, x=1)");
    }
    padding.sizes = {to_integer(value.attr("_y"), {where.subject, where.name + ".y", "int"}),
                     to_integer(value.attr("_x"), {where.subject, where.name + ".x", "int"})};
  }
  return padding;
}

py::object from_padding(PaddingPolicy policy, std::int64_t y, std::int64_t x) {
  if (policy != PaddingPolicy::kUsePaddingSize) {
    return py::cast(policy);
  }
  const Where where{"MLCPaddingPolicy.sized", "y and x", "int"};
  if (y < 0 || x < 0) {
    out_of_range(where, std::min(y, x));
  }
  // int.__new__ makes a member beside the listed ones: equal to USE_PADDING_SIZE, with its sizes.
  const py::handle type = enum_class("MLCPaddingPolicy");
  const long raw = static_cast<long>(policy);
  py::object member = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(&PyLong_Type))
                          .attr("__new__")(type, raw);
  member.attr("_value_") = raw;
  member.attr("_name_") = "USE_PADDING_SIZE";
  member.attr("_debug_description") = py::cast(policy).attr("_debug_description");
  member.attr("_y") = y;
  member.attr("_x") = x;
  return member;
}

}  // namespace traingraph::python
