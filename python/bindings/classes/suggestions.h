#pragma once

#include <string>

#include <pybind11/pybind11.h>

// Guesses for the texts of errors about arguments.
namespace traingraph::python {

// Whether `word` may be meant for this name: its beginning, its initials, a slip of the keys, or
// the word that Keras or PyTorch have for it.
bool resembles(const std::string& word, const std::string& name);
// Where there is what an argument says that this function does not have: "metrics is for fit() of
// the result"; empty: nowhere.
std::string taken_elsewhere(const std::string& function, const std::string& word);
// Whether an annotation may stand for this value.
bool may_take(const std::string& annotation, pybind11::handle value);

}  // namespace traingraph::python
