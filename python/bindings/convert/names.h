#pragma once

#include "convert/convert.h"
#include "convert/python.h"

namespace traingraph::python {

// A dictionary of tensors by name; None is empty.
NamedTensors named_tensors(pybind11::handle dictionary, const Where& where);

// Arrays for declared tensors by name, in the order of the dictionary; None is empty. A name that
// was not declared is an error that lists the declared ones.
enum class Access { kRead, kWrite };
NamedData named_data(pybind11::handle dictionary, const NamedTensors& declared, const char* subject,
                     const char* argument, const char* role, Access access);
// The same of data that is read, in place of that of an earlier call: what has not changed stays.
void renew_data(NamedData& data, pybind11::handle dictionary, const NamedTensors& declared,
                const char* subject, const char* argument, const char* role);

// For an array that is given for a group of which not exactly one tensor is declared.
[[noreturn]] void refuse_one_array(const NamedTensors& declared, const Where& where,
                                   std::string_view role);

}  // namespace traingraph::python
