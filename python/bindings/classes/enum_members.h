#pragma once

namespace traingraph::python {

// Properties and factories of the enumerations' classes.
void bind_enum_members();

}  // namespace traingraph::python
