#pragma once

#include "bindings.h"

namespace traingraph::python {

// A parameter of a layer as a property: the layer's own object, or None where it has no tensor.
template <typename Class, typename Member>
void def_parameter(Class& cls, const char* name, Member member) {
  using Self = typename Class::type;
  cls.def_property_readonly(
      name,
      [member](Self& self) {
        TensorParameter& parameter = (self.*member)();
        return parameter.tensor != nullptr ? &parameter : nullptr;
      },
      "The parameter, or None.");
}

}  // namespace traingraph::python
