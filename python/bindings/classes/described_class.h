// Python classes made of class descriptions. Nothing here is a template of the class: a leaf of a
// hierarchy shares pybind11's type record of its base, a value is held by a std::shared_ptr<void>.
#pragma once

#include <any>
#include <memory>
#include <typeinfo>

#include <traingraph/class_description.h>

#include "classes/bound_class.h"
#include "convert/convert.h"

namespace traingraph::python {

class Arguments;

// How objects that std::shared_ptr<Base> owns begin and end.
struct Ownership {
  std::size_t holder_bytes;
  VisitInstance visit;
  // `owner` is that pointer, or null where the object knows who owns it.
  void (*begin)(py::detail::instance* instance, const void* owner);
  void (*end)(py::detail::value_and_holder& place);
  // Of objects whose constructor calls user-defined ones: waits for runs that have to end before.
  void (*before_making)(const Given& given) = nullptr;
  // Of objects that keep what a constructor was given.
  void (*after_making)(const std::any& made, const Arguments& arguments) = nullptr;
  bool shows_memory = false;  // by the buffer protocol
};
template <typename Base>
Ownership ownership();
// Of values that own something themselves.
template <typename Value>
Ownership ownership_of_values() {
  Ownership made = ownership<void>();
  made.visit = visit_instance<Value, std::shared_ptr<void>>();
  return made;
}

// A class whose base is bound; of a value, or the base of all, where the description has no base.
// The ownership lives as long as the class.
void bind_described(py::module_& module, const ClassDescription& description,
                    const Ownership& ownership);
// Its properties alone, on a class that C++ calls `self`; with `holds`, of objects that it holds
// for.
void add_properties(py::handle cls, const std::type_info& self,
                    const std::vector<Property>& properties,
                    bool (*holds)(const void* object) = nullptr);

// Of a type that was bound.
const ClassDescription& described_class(const std::type_info& type);
std::any load_described(const std::type_info& type, py::handle value, const Where& where);
py::object cast_described(const std::type_info& type, const std::any& value);
// Of the class of this name: `made` is what a form makes.
py::object cast_made(const std::string& name, const std::any& made);

// A described class, to add what is bound by hand.
template <typename Self>
auto described(const py::module_& module, const char* name) {
  return py::reinterpret_borrow<BoundClass<Self, std::shared_ptr<Self>>>(module.attr(name));
}

// Owns a value that pybind11 made.
std::shared_ptr<void> adopted(const std::type_info& type, void* value);
// Where an object's pointer and owner are; the object is known to pybind11 from here on.
py::detail::value_and_holder registered(py::detail::instance* instance);

template <typename Base>
Ownership ownership() {
  using Owner = std::shared_ptr<Base>;
  return {sizeof(Owner),
          visit_instance<Base, Owner>(),
          [](py::detail::instance* instance, const void* owner) {
            auto place = registered(instance);
            if (owner != nullptr) {
              new (&place.holder<Owner>()) Owner(*static_cast<const Owner*>(owner));
            } else if constexpr (requires(Base& base) { base.shared_from_this(); }) {
              new (&place.holder<Owner>()) Owner(place.value_ptr<Base>()->shared_from_this());
            } else if constexpr (std::is_void_v<Base>) {
              if (!instance->owned) return;  // another owns it
              new (&place.holder<Owner>()) Owner(adopted(*place.type->cpptype, place.value_ptr()));
            } else {
              return;  // another owns it
            }
            place.set_holder_constructed();
          },
          [](py::detail::value_and_holder& place) {
            const py::error_scope kept;
            if (place.holder_constructed()) {
              place.holder<Owner>().~Owner();
              place.set_holder_constructed(false);
            }
            place.value_ptr() = nullptr;
          },
          nullptr,
          nullptr};
}

}  // namespace traingraph::python
