// Makes Python classes of class descriptions, and finds them again by type and by name.
#include "classes/described_class.h"

#include <stdexcept>
#include <typeindex>
#include <unordered_map>

#include "classes/described_members.h"

namespace traingraph::python {
namespace {

// Both kept for the life of the process. By the type of C++:
std::unordered_map<std::type_index, const ClassDescription*>& descriptions() {
  static auto* const by_type = new std::unordered_map<std::type_index, const ClassDescription*>;
  return *by_type;
}
// By name.
struct Bound {
  const ClassDescription* description;
  py::detail::type_info* type;
};
std::unordered_map<std::string, Bound>& bound_classes() {
  static auto* const by_name = new std::unordered_map<std::string, Bound>;
  return *by_name;
}

class NewType final : public py::detail::generic_type {
 public:
  explicit NewType(const py::detail::type_record& record) { initialize(record); }
};

py::object make_type(py::module_& module, const ClassDescription& description,
                     const Ownership& ownership) {
  py::detail::type_record record;
  const std::size_t dot = description.name.find('.');
  const bool is_within = dot != std::string::npos;
  const py::object scope =
      is_within ? py::object(module.attr(description.name.substr(0, dot).c_str())) : module;
  record.scope = scope;
  record.name = description.name.c_str() + (is_within ? dot + 1 : 0);
  record.doc = description.summary.c_str();
  record.type = description.type;
  record.type_size = description.bytes;
  record.type_align = description.alignment;
  record.holder_size = ownership.holder_bytes;
  record.holder_enum_v = py::detail::holder_enum_t::std_shared_ptr;
  record.init_instance = ownership.begin;
  record.dealloc = ownership.end;
  record.buffer_protocol = ownership.shows_memory;
  record.custom_type_setup_callback = set_up(ownership.visit).value;
  if (description.base != nullptr) record.add_base(*description.base, nullptr);
  return NewType(record);
}

// One of several classes of Python that are one in C++: derived as Python derives, its objects are
// the base's.
py::object derive_type(py::module_& module, const ClassDescription& description) {
  const py::handle base(
      reinterpret_cast<PyObject*>(py::detail::get_type_info(*description.base)->type));
  const py::object cls = py::type::of(base)(
      description.name, py::make_tuple(base),
      py::dict(py::arg("__doc__") = description.summary, py::arg("__slots__") = py::tuple(),
               py::arg("__module__") = module.attr("__name__")));
  module.attr(description.name.c_str()) = cls;
  return cls;
}

bool is_derived(const ClassDescription& description) {
  return description.base != nullptr && *description.base == *description.type;
}

py::object cast_bound(const Bound& bound, const std::any& made) {
  const ClassDescription& description = *bound.description;
  return py::reinterpret_steal<py::object>(py::detail::type_caster_generic::cast(
      description.object(made), py::return_value_policy::take_ownership, {}, bound.type, nullptr,
      nullptr, description.owner(made)));
}

}  // namespace

void* load_object(const std::type_info& type, py::handle value) {
  py::detail::type_caster_generic caster(type);
  return caster.load(value, /*convert=*/false) ? caster.value : nullptr;
}

void place_made(py::detail::function_call& call, const ClassDescription& description,
                const std::any& made) {
  auto place = place_of(call);
  // The arguments' own code may have made one meanwhile.
  if (place.instance_registered()) {
    throw py::type_error("[" + description.name + "] expected one call of __init__ at a time");
  }
  ++objects_made;  // of a class that Python derived as well
  place.value_ptr() = description.object(made);
  place.type->init_instance(place.inst, description.owner(made));
}

py::detail::value_and_holder registered(py::detail::instance* instance) {
  auto* const type = py::detail::get_type_info(Py_TYPE(reinterpret_cast<PyObject*>(instance)));
  auto place = instance->get_value_and_holder(type);
  if (!place.instance_registered()) {
    py::detail::register_instance(instance, place.value_ptr(), type);
    place.set_instance_registered();
  }
  return place;
}

void bind_described(py::module_& module, const ClassDescription& description,
                    const Ownership& ownership) {
  Bound bound{&description, nullptr};
  py::object cls;
  if (is_derived(description)) {
    cls = derive_type(module, description);
    // What pybind11 knows of the base, but for the class.
    bound.type = new py::detail::type_info(*py::detail::get_type_info(*description.base));
    bound.type->type = reinterpret_cast<PyTypeObject*>(cls.ptr());
  } else {
    descriptions().emplace(*description.type, &description);
    cls = make_type(module, description, ownership);
    bound.type = py::detail::get_type_info(*description.type);
  }
  bound_classes().emplace(description.name, bound);
  if (!description.forms.empty()) add_constructor(cls, description, ownership);
  for (const Factory& factory : description.factories) add_factory(cls, description, factory);
  add_properties(cls, *description.type, description.properties, description.holds);
  add_functions(cls, description);
  add_protocols(cls, description);
}

std::shared_ptr<void> adopted(const std::type_info& type, void* value) {
  return described_class(type).adopted(value);
}

const ClassDescription& described_class(const std::type_info& type) {
  const auto found = descriptions().find(type);
  if (found != descriptions().end()) return *found->second;
  throw std::logic_error(std::string("no class of Python is known for ") + type.name());
}

std::any load_described(const std::type_info& type, py::handle value, const Where& where) {
  void* const object = load_object(type, value);
  if (object == nullptr) refuse(where, value);
  return described_class(type).copy(object);
}

py::object cast_described(const std::type_info& type, const std::any& value) {
  const ClassDescription& description = described_class(type);
  return cast_made(description.name, description.owned(value));
}

py::object cast_made(const std::string& name, const std::any& made) {
  return cast_bound(bound_classes().at(name), made);
}

}  // namespace traingraph::python
