// The parts that described classes are made of; described_class.cpp puts them together.
#pragma once

#include <any>
#include <string>
#include <typeinfo>
#include <vector>

#include "classes/described_class.h"
#include "classes/signature.h"

namespace traingraph::python {

// The pointer to an object of this class; null for another one.
void* load_object(const std::type_info& type, py::handle value);
// What is made takes the place that pybind11 gives a constructor.
void place_made(py::detail::function_call& call, const ClassDescription& description,
                const std::any& made);

// --- forms ---------------------------------------------------------------------------------------

std::vector<CallForm> forms_of(const std::vector<Form>& forms);
// The text, and what each argument is, once.
std::string document_of(const std::string& text, const std::vector<Form>& forms);
// Of the form that was called.
Given given_of(const std::vector<Form>& forms, const Arguments& arguments);
// Behind the text of what has one.
std::string range_text(const Range* range);

void add_constructor(py::handle cls, const ClassDescription& description,
                     const Ownership& ownership);
void add_factory(py::handle cls, const ClassDescription& description, const Factory& factory);

// --- members -------------------------------------------------------------------------------------

// `document` begins with the signature: "copy(self) -> MLCMatMulDescriptor".
py::object function(Body body, const Capture& capture, std::size_t arguments, py::handle cls,
                    const char* name, const std::string& document, bool is_property = false);
void add_functions(py::handle cls, const ClassDescription& description);
// Copies, pickles, comparisons and texts.
void add_protocols(py::handle cls, const ClassDescription& description);

}  // namespace traingraph::python
