// Attributes of every op from Python dictionaries, for the private test module.
#include <pybind11/stl.h>

#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <traingraph/errors.h>

#include "testing.h"

namespace traingraph::testing {
namespace {

ir::Scalar scalar_named(const std::string& text) {
#define TRAINGRAPH_SCALAR(name, arity, value, gradient_x, gradient_y) \
  if (text == #name) return ir::Scalar::name;
#include "ir/scalar.def"
#undef TRAINGRAPH_SCALAR
  throw InvalidArgument("[scalar] no function '" + text + "'");
}

ir::ScalarList scalar_list(const py::handle& given) {
  ir::ScalarList list;
  list.inputs = given["inputs"].cast<int>();
  list.results = given["results"].cast<std::vector<int>>();
  for (const py::handle entry : given["code"]) {
    const auto [function, x, y, p, q] =
        entry.cast<std::tuple<std::string, int, int, double, double>>();
    list.add(scalar_named(function), x, y, p, q);
  }
  return list;
}

// Takes the fields that attributes list out of a dictionary; what nobody took is a misspelling.
class Fields {
 public:
  explicit Fields(const py::dict& given)
      : left_(py::reinterpret_steal<py::dict>(PyDict_Copy(given.ptr()))) {}

  template <class T>
  void operator()(const char* field, T& target) {
    if (left_.contains(field)) read(left_.attr("pop")(field), target);
  }
  // A window's own fields stand among the others.
  void operator()(const char*, ir::Window& window) {
    (*this)("kernel", window.kernel);
    (*this)("stride", window.stride);
    (*this)("dilation", window.dilation);
    (*this)("padding_before", window.padding_before);
    (*this)("padding_after", window.padding_after);
  }
  template <class T>
  void unless_empty(const char* field, T& target) {
    (*this)(field, target);
  }
  template <class T>
  void unprinted(const char* field, T& target) {
    (*this)(field, target);
  }
  void expect_none_left() const {
    if (!left_.empty()) {
      throw InvalidArgument("[attributes] unknown fields " + py::str(left_).cast<std::string>());
    }
  }

 private:
  template <class T>
  static void read(const py::object& value, T& target) {
    if constexpr (std::is_enum_v<T>) {
      target = static_cast<T>(value.cast<int>());
    } else {
      target = value.cast<T>();
    }
  }
  static void read(const py::object& value, DataType& target) {
    target = data_type_named(value.cast<std::string>());
  }
  // A pair (y, x).
  static void read(const py::object& value, std::int64_t (&target)[2]) {
    std::tie(target[0], target[1]) = value.cast<std::pair<std::int64_t, std::int64_t>>();
  }
  // {"inputs": n, "code": [(function, x, y, p, q), …], "results": [registers]}
  static void read(const py::object& value, ir::ScalarList& target) { target = scalar_list(value); }
  // One by one: scalar lists and data types have forms of their own.
  template <class T>
  static void read(const py::object& value, std::vector<T>& target) {
    target.clear();
    for (const py::handle one : value)
      read(py::reinterpret_borrow<py::object>(one), target.emplace_back());
  }

  py::dict left_;
};

template <class A>
ir::Attributes attributes_as(const py::dict& given) {
  Fields fields(given);
  A attributes;
  attributes.fields(attributes, fields);
  fields.expect_none_left();
  return attributes;
}

}  // namespace

ir::Attributes attributes_from(ir::Op op, const py::dict& fields) {
  switch (op) {
#define TRAINGRAPH_OP(name, attributes, cpu) \
  case ir::Op::name:                         \
    return attributes_as<ir::attributes>(fields);
#include "ops.def"
#undef TRAINGRAPH_OP
  }
  throw InternalError("[attributes] an op outside the table");
}

}  // namespace traingraph::testing
