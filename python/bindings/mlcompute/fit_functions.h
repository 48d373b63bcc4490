#pragma once

#include <optional>

#include <traingraph/fit.h>

#include "convert/convert.h"

namespace traingraph::python {

// Both raise TypeError for a class, and for what nobody would run. The call's arguments have to
// outlive what they give.
FitCallbackPtr to_callback(py::handle value, const Where& where);
// None for None.
std::optional<RateSchedule> to_schedule(py::handle value, const Where& where);

}  // namespace traingraph::python
