#include "bindings.h"
#include "classes/signature.h"
#include "convert/enum_table.h"

namespace traingraph::python {
namespace {

// What a member has of its own, under the name with "_" before it; else 0.
void add_field(py::handle type, const char* name, const char* signature, const char* doc) {
  const Body body = [](py::detail::function_call& call) -> py::handle {
    const std::string field = std::string("_") + call.func.name;
    if (!py::isinstance(call.args[0], call.func.scope)) return PYBIND11_TRY_NEXT_OVERLOAD;
    return py::object(py::getattr(call.args[0], field.c_str(), py::int_(0))).release();
  };
  const py::object get = make_function({body, Capture(0), {signature, {}}, 1, type, name});
  add_property(type, name, get, {}, doc);
}

}  // namespace

void bind_enum_members() {
  for (const EnumRow& row : enum_table()) {
    const py::handle type = enum_class(row.name.c_str());
    const py::handle first = *py::iter(type);
    if (!py::hasattr(first, "_debug_description")) continue;
    add_field(type, "debug_description", "({object}) -> str", "Apple's text for the case.");
  }
  // sized() makes a member that carries its sizes; the plain members have none.
  const py::handle padding = enum_class("MLCPaddingPolicy");
  for (const char* axis : {"y", "x"}) {
    add_field(padding, axis, "({object}) -> object",
              "Padding on both sides along this axis, 0 unless sized.");
  }
  def_factory(padding, "sized", "MLCPaddingPolicy", {"*, y: int, x: int"},
              "Explicit padding: y at top and bottom, x at left and right.",
              [](const Arguments& arguments) {
                return from_padding(PaddingPolicy::kUsePaddingSize,
                                    arguments.get<std::int64_t>("y"),
                                    arguments.get<std::int64_t>("x"));
              });
}

}  // namespace traingraph::python
